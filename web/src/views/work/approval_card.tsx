// A question that a run waits for: may this tool be used? Large enough to be answered with a thumb.
import { pathOf, post, type Approval } from '../../api/client';
import { sessionHref } from '../../state/route';
import { rowOf, titleOf } from '../../state/sessions';
import { may, who } from '../../state/who';
import { approvals, readWork } from '../../state/work';
import { Badge } from '../../ui/basics';
import { now, span, text } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { doing } from '../../ui/toast';

export function ApprovalCard({ approval, placed }: { approval: Approval; placed?: boolean }) {
  const answer = (decision: string, done: string) =>
    doing(done, async () => {
      await post(pathOf(approval, '/approvals/' + encodeURIComponent(approval.id)), { decision });
      approvals.value = approvals.value.filter(one => one.id !== approval.id);
      void readWork();
    });
  const row = rowOf(approval),
    asked = approval.askedBy === who.value?.id;
  const left = approval.deadline - now.value,
    args = approval.args as Record<string, unknown>;
  const command = typeof args.command === 'string' ? args.command : null;
  return (
    <section class="approval" aria-label={`May the agent use ${approval.tool}?`}>
      <header>
        <Icon name="help" />
        <strong>
          May the agent use <code>{approval.tool}</code>?
        </strong>
        <Badge tone={left < 30_000 ? 'bad' : 'warn'}>{left > 0 ? `${span(left)} left` : 'time is over'}</Badge>
      </header>
      {placed && (
        <p>
          <a href={sessionHref(approval)}>{row ? titleOf(row) : approval.key.replace(/^agent:[^:]*:/, '')}</a>{' '}
          <span class="soft">
            {text(row?.channel)} · agent {approval.agent}
          </span>
        </p>
      )}
      <pre class="code" tabIndex={0} role="region" aria-label="Arguments">
        {command ?? JSON.stringify(args, null, 2)}
      </pre>
      <p class="soft small">Without an answer it is denied.</p>
      {may('approve') && !asked ? (
        <div class="answers">
          <button type="button" class="primary" onClick={() => void answer('allow', 'Allowed')}>
            Allow once
          </button>
          <button type="button" onClick={() => void answer('allow-session', 'Allowed for this session')}>
            Allow for session
          </button>
          <button type="button" class="danger" onClick={() => void answer('deny', 'Denied')}>
            Deny
          </button>
        </div>
      ) : (
        <p class="soft">{asked ? 'Your token asked: another one must answer.' : 'Your token may not answer it.'}</p>
      )}
    </section>
  );
}
