// What is being written now: text as it is produced, tools at work, somebody typing; approvals that the run waits for.
import { idOf } from '../../api/client';
import type { Conversation } from '../../state/conversation';
import { approvals } from '../../state/work';
import { now } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Markdown } from '../../ui/markdown';
import { ApprovalCard } from '../work/approval_card';
import { Thinking } from './part';

export function LiveRun({ conversation }: { conversation: Conversation }) {
  const run = conversation.running.value,
    typing = conversation.typing.value > now.value;
  const open = approvals.value.filter(approval => idOf(approval) === idOf(conversation.place));
  if (!run && !typing && !open.length) return <div class="live-end" />;
  return (
    <div class="live-run">
      {run && (
        <article class="message assistant live" aria-label="The agent is answering">
          <header>
            <span class="avatar assistant pulse" aria-hidden="true">
              <Icon name="bot" size={15} />
            </span>
            <strong dir="auto">{conversation.place.agent}</strong>
            <span class="soft">{run.step > 0 ? `step ${run.step}` : 'at work'}</span>
          </header>
          <div class="body">
            {run.reasoning && <Thinking source={run.reasoning} open />}
            {run.text ? (
              <Markdown source={run.text} />
            ) : (
              !run.tools.length &&
              !open.length && (
                <p class="dots" aria-label="Thinking">
                  <i />
                  <i />
                  <i />
                </p>
              )
            )}
            {run.tools.map(tool => (
              <p key={tool.callId} class="tool-now">
                <Icon name="tool" size={16} />
                <code>{tool.tool}</code>
                <span class="gist">{JSON.stringify(tool.args ?? {}).slice(0, 140)}</span>
              </p>
            ))}
          </div>
        </article>
      )}
      {open.map(approval => (
        <ApprovalCard key={approval.id} approval={approval} />
      ))}
      {typing && !run && (
        <p class="typing soft">
          <span class="dots">
            <i />
            <i />
            <i />
          </span>{' '}
          Somebody is typing
        </p>
      )}
    </div>
  );
}
