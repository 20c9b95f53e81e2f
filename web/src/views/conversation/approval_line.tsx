// A question of the agent that is decided: one line, with its arguments when it is opened.
import type { Approval } from '../../api/client';
import { clock, visible } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Arguments, Decided } from '../work/approval_parts';

export function ApprovalLine({ approval }: { approval: Approval }) {
  const allowed = approval.decision === 'allow';
  return (
    <details class="mark approval-line">
      <summary>
        <span>
          <span class={allowed ? 'good-text' : 'bad-text'}>
            <Icon name={allowed ? 'check' : 'close'} size={16} />
          </span>
          <code>{visible(approval.tool)}</code> <Decided approval={approval} />
          <span class="soft num"> {clock(approval.resolvedAt ?? approval.askedAt)}</span>
        </span>
      </summary>
      <Arguments approval={approval} />
    </details>
  );
}
