// Entries that are no message: compactions, runs, custom ones. A line across the conversation.
import { Badge, Json } from '../../ui/basics';
import { clock, text } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Markdown } from '../../ui/markdown';
import type { Message } from '../../api/client';

const RUN_TONE = { done: 'good', failed: 'bad', interrupted: 'warn' } as const;

function RunMark({ message }: { message: Message }) {
  const data = (message.data ?? {}) as {
    status?: string;
    steps?: number;
    model?: string;
    error?: { code?: string; message?: string };
  };
  const tone = RUN_TONE[data.status as keyof typeof RUN_TONE] ?? 'plain';
  return (
    <div class="mark">
      <span>
        <Badge tone={tone}>run {data.status ?? 'ended'}</Badge>
        {data.error && <span class="soft"> {data.error.message ?? data.error.code}</span>}
      </span>
    </div>
  );
}

// A person took over, or handed back.
function TakeoverMark({ message, back }: { message: Message; back: boolean }) {
  const data = (message.data ?? {}) as { name?: string; reason?: string; answered?: number; waiting?: number },
    at = Number(message.timestamp) || 0;
  const name = data.name ?? 'A person';
  const told = !back
    ? `${name} took over`
    : `${data.reason === 'expired' ? 'The time was over: handed back' : `${name} handed back`}${data.waiting ? `, ${data.waiting} to be answered` : ''}`;
  return (
    <div class="mark">
      <span>
        <Icon name="hand" size={16} />
        <span dir="auto">{told}</span>
        {at > 0 && ` at ${clock(at)}`}
      </span>
    </div>
  );
}

export function Mark({ message }: { message: Message }) {
  const type = text(message.type),
    custom = text(message.customType),
    at = Number(message.timestamp) || 0;
  if (custom === 'sessiond.run') return <RunMark message={message} />;
  if (custom === 'sessiond.takeover' || custom === 'sessiond.handback')
    return <TakeoverMark message={message} back={custom === 'sessiond.handback'} />;
  if (type === 'compaction' || type === 'branch_summary') {
    return (
      <details class="mark compaction">
        <summary>
          <span>
            <Icon name="layers" size={16} />
            {type === 'compaction' ? 'Compacted' : 'Branch summary'}
            {at > 0 && ` at ${clock(at)}`}: from here on the model has this summary of what is above
          </span>
        </summary>
        <Markdown source={text(message.summary)} />
      </details>
    );
  }
  if (type === 'custom_message')
    return (
      <div class="aside-message">
        <Markdown source={text(message.content) || text(message.text) || JSON.stringify(message.content ?? '')} />
      </div>
    );
  const told =
    type === 'model_change'
      ? `Model: ${text(message.provider)} ${text(message.modelId) || text(message.model)}`
      : type === 'thinking_level_change'
        ? `Thinking: ${text(message.thinkingLevel)}`
        : custom || type;
  return (
    <details class="mark">
      <summary>
        <span>{told}</span>
      </summary>
      <Json value={message} />
    </details>
  );
}
