// A question that a run waits for: may this tool be used? Large enough to be answered with a thumb.
import { Fragment } from 'preact';
import { pathOf, post, type Approval } from '../../api/client';
import { sessionHref } from '../../state/route';
import { rowOf, titleOf } from '../../state/sessions';
import { may, who } from '../../state/who';
import { approvals, readWork } from '../../state/work';
import { Channel } from '../../ui/basics';
import { lasted, text, visible } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { doing } from '../../ui/toast';
import { useTick } from '../../ui/use';

export function ApprovalCard({ approval, placed }: { approval: Approval; placed?: boolean }) {
  const answer = (decision: string, done: string) =>
    doing(done, async () => {
      await post(pathOf(approval, '/approvals/' + encodeURIComponent(approval.id)), { decision });
      approvals.value = approvals.value.filter(one => one.id !== approval.id);
      void readWork();
    });
  const row = rowOf(approval),
    asked = approval.askedBy === who.value?.id;
  const left = approval.deadline - Date.now(),
    args = Object.entries(approval.args as Record<string, unknown>);
  useTick(1000);
  return (
    <section class="approval" aria-label={`${approval.agent} asks to use ${approval.tool}`}>
      <header>
        <Icon name="key" size={16} />
        <span>
          <strong dir="auto">{approval.agent}</strong> asks to use <code>{visible(approval.tool)}</code>
        </span>
        <span class="left num" title="Without an answer it is denied">
          {left > 0 ? `Counts as denied in ${lasted(left)}` : 'Time is over'}
        </span>
      </header>
      <div class="approval-body">
        {placed && (
          <p>
            <a href={sessionHref(approval)}>{row ? titleOf(row) : approval.key.replace(/^agent:[^:]*:/, '')}</a>{' '}
            <Channel name={text(row?.channel)} />
          </p>
        )}
        {args.length > 0 ? (
          <div class="arguments" tabIndex={0} role="region" aria-label="Arguments">
            <dl>
              {args.map(([name, value]) => (
                <Fragment key={name}>
                  <dt>{visible(name)}</dt>
                  <dd dir="auto">{visible(typeof value === 'string' ? value : JSON.stringify(value, null, 2))}</dd>
                </Fragment>
              ))}
            </dl>
          </div>
        ) : (
          <p class="soft">It has no arguments.</p>
        )}
        {may('approve') && !asked ? (
          <div class="answers">
            <button type="button" class="primary" onClick={() => void answer('allow', 'Allowed')}>
              Allow once
            </button>
            <button type="button" onClick={() => void answer('allow-session', 'Allowed in this session')}>
              Allow {visible(approval.tool)} in this session
            </button>
            <button type="button" class="danger" onClick={() => void answer('deny', 'Denied')}>
              Deny
            </button>
          </div>
        ) : (
          <p class="soft">{asked ? 'Your token asked: another one must answer.' : 'Your token may not answer it.'}</p>
        )}
      </div>
    </section>
  );
}
