// One message: who spoke, what, and what it cost.
import { Badge, Copy } from '../../ui/basics';
import { clock, cost, moment, short, text } from '../../ui/format';
import { Icon } from '../../ui/icons';
import type { Item } from './items';
import { OnePart, Text } from './part';
import { partsOf, speakerOf, spentOf } from './parts';

const NAMES: Record<string, string> = { user: 'User', assistant: 'Agent', system: 'System', developer: 'Developer' };
export function MessageView({
  item,
  onRaw,
  marked,
}: {
  item: Extract<Item, { kind: 'message' }>;
  onRaw: (seq: number, id: string) => void;
  marked: boolean;
}) {
  const { message, later, results, cont } = item,
    role = text(message.role),
    at = Number(message.timestamp) || 0;
  const parts = partsOf(message),
    spent = spentOf(message),
    who = speakerOf(message);
  const interrupted = message.state === 'interrupted' || message.stopReason === 'aborted',
    failed = message.stopReason === 'error' || !!message.errorMessage;
  return (
    <article
      class={`message ${role} ${cont ? 'cont' : ''} ${marked ? 'marked' : ''}`}
      aria-label={`${who || NAMES[role] || role}, ${at ? clock(at) : ''}`}
    >
      {!cont && (
        <header>
          <span class={`avatar ${role}`} aria-hidden="true">
            {(who || NAMES[role] || role || '?').slice(0, 1).toUpperCase()}
          </span>
          <strong dir="auto">{who || NAMES[role] || role}</strong>
          {who && role !== 'user' && <span class="soft">{NAMES[role] ?? role}</span>}
          {at > 0 && (
            <time class="soft num" dateTime={new Date(at).toISOString()} title={moment(at)}>
              {clock(at)}
            </time>
          )}
          {text(message.model) && <span class="soft model">{text(message.model)}</span>}
        </header>
      )}
      <div class={`body ${later?.deleted ? 'gone' : ''}`}>
        {later?.deleted && (
          <p class="aside">Deleted by its author. It stays in the transcript; no model is shown it.</p>
        )}
        {later?.edited !== undefined && !later.deleted ? (
          <>
            <Text source={later.edited} />
            <details class="aside">
              <summary>Edited. As first written</summary>
              {parts.map((part, n) => (
                <OnePart key={n} part={part} results={results} />
              ))}
            </details>
          </>
        ) : (
          parts.map((part, n) => <OnePart key={n} part={part} results={results} />)
        )}
        {interrupted && (
          <p class="notice warn">
            <Icon name="stop" size={16} />
            Interrupted: the answer ends here.
          </p>
        )}
        {failed && (
          <p class="notice bad">
            <Icon name="warn" size={16} />
            Error: {text(message.errorMessage) || 'the model could not answer'}
          </p>
        )}
        {!!later?.reactions.size && (
          <p class="reactions">
            {[...later.reactions]
              .filter(([, n]) => n > 0)
              .map(([emoji, n]) => (
                <Badge key={emoji}>
                  {emoji} {n}
                </Badge>
              ))}
          </p>
        )}
      </div>
      <footer class="soft">
        {spent && spent.input + spent.output > 0 && (
          <span
            class="num"
            title={`${spent.input} tokens in, ${spent.output} out${spent.cache ? `, ${spent.cache} from the cache` : ''}`}
          >
            {short(spent.input)} in · {short(spent.output)} out{spent.cost > 0 && ` · ${cost(spent.cost)}`}
          </span>
        )}
        {later?.delivered && (
          <span title={`Delivered as ${later.delivered}`}>
            <Icon name="check" size={14} /> delivered
          </span>
        )}
        <span class="tools">
          <Copy
            value={() =>
              parts
                .map(part => (part.kind === 'text' ? part.text : ''))
                .filter(Boolean)
                .join('\n\n')
            }
            label="Copy the text"
          />
          <button
            type="button"
            class="ghost icon-only"
            title="The raw line"
            aria-label="Show the raw line"
            onClick={() => onRaw(message.seq, message.id)}
          >
            <Icon name="more" size={16} />
          </button>
        </span>
      </footer>
    </article>
  );
}
