// What every form of an approval shows: the arguments, the answers that this token may give, and how it was decided.
import { Fragment } from 'preact';
import { pathOf, post, type Approval } from '../../api/client';
import { whoIs } from '../../state/token_names';
import { may, who } from '../../state/who';
import { approvals, readWork } from '../../state/work';
import { visible } from '../../ui/format';
import { doing } from '../../ui/toast';

const answer = (approval: Approval, decision: string, done: string) =>
  doing(done, async () => {
    await post(pathOf(approval, '/approvals/' + encodeURIComponent(approval.id)), { decision });
    approvals.value = approvals.value.filter(one => one.id !== approval.id);
    void readWork();
  });

const isAsker = (approval: Approval) => approval.askedBy === who.value?.id;
export const mayAnswer = (approval: Approval) => may('approve') && !isAsker(approval);

const REASONS: Record<string, string> = {
  session: 'as it was allowed in this session before',
  guardrail: 'by a guardrail',
  hook: 'by a hook',
  default: 'since nobody answered in time',
  run_ended: 'since its run ended',
};
// "Allowed by hanne-phone", "Denied since nobody answered in time".
export function Decided({ approval }: { approval: Approval }) {
  const by = approval.by && whoIs(approval.by);
  const how = approval.source === 'answer' ? by && `by ${by}` : REASONS[approval.source ?? ''];
  return (
    <span dir="auto">
      {[approval.decision === 'allow' ? 'Allowed' : 'Denied', how].filter(Boolean).join(' ')}
      {approval.reason && `: ${visible(approval.reason)}`}
    </span>
  );
}

export function Arguments({ approval }: { approval: Approval }) {
  const args = Object.entries(approval.args as Record<string, unknown>);
  if (!args.length) return <p class="soft">It has no arguments.</p>;
  return (
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
  );
}

export function Answers({
  approval,
  mayAllow = true,
  mayDeny = true,
}: {
  approval: Approval;
  mayAllow?: boolean;
  mayDeny?: boolean;
}) {
  if (!mayAnswer(approval))
    return (
      <p class="soft">
        {isAsker(approval) ? 'Your token asked: another one must answer.' : 'Your token may not answer it.'}
      </p>
    );
  return (
    <div class="answers">
      <button
        type="button"
        class="primary"
        disabled={!mayAllow}
        onClick={() => void answer(approval, 'allow', 'Allowed')}
      >
        Allow once
      </button>
      <button
        type="button"
        disabled={!mayAllow}
        onClick={() => void answer(approval, 'allow-session', 'Allowed in this session')}
      >
        Allow {visible(approval.tool)} in this session
      </button>
      <button type="button" class="danger" disabled={!mayDeny} onClick={() => void answer(approval, 'deny', 'Denied')}>
        Deny
      </button>
    </div>
  );
}
