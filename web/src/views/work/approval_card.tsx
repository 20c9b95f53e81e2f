// A question that a run waits for, where it was asked: may this tool be used?
import type { Approval } from '../../api/client';
import { lasted, seconds, visible } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Answers, Arguments } from './approval_parts';

export function ApprovalCard({ approval }: { approval: Approval }) {
  const left = approval.deadline - seconds.value;
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
        <Arguments approval={approval} />
        <Answers approval={approval} />
      </div>
    </section>
  );
}
