// Entries that are no message: compactions, runs, custom ones. A line across the conversation.
import { Json } from '../../ui/basics';
import { clock, lasted, text } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Markdown } from '../../ui/markdown';
import type { Message } from '../../api/client';
import { whoIs } from '../../state/token_names';

interface EndOfRun {
  status?: string;
  stopReason?: string;
  retried?: boolean;
  stoppedBy?: string;
  startedAt?: number;
  endedAt?: number;
  error?: { code?: string; message?: string };
}

// How a run ended that did not end well, as people say it.
function endWords({ status, retried, stoppedBy, startedAt, endedAt, error }: EndOfRun): string {
  const after = startedAt && endedAt ? ` after ${lasted(endedAt - startedAt)}` : '';
  if (error?.code === 'lease_lost') return `The runner fell silent${after}${retried ? ', and it was tried again' : ''}`;
  if (status === 'interrupted')
    return startedAt
      ? `Stopped${stoppedBy ? ` by ${whoIs(stoppedBy)}` : ''}${after}. What it had written was not sent.`
      : 'Stopped before it began';
  if (status === 'expired') return 'No runner took it in time';
  if (status === 'dropped') return `Dropped: ${error?.message ?? 'it was not needed any more'}`;
  return `The run failed${after}: ${error?.message ?? error?.code ?? 'no reason was given'}`;
}

function RunMark({ message }: { message: Message }) {
  const data = (message.data ?? {}) as EndOfRun,
    failed = data.status === 'failed';
  return (
    <div class={`mark ${failed ? 'bad-text' : ''}`}>
      <span>
        <Icon name={failed ? 'warn' : 'stop'} size={16} />
        <span dir="auto">{endWords(data)}</span>
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
