// One message: who spoke, what, and what it cost.
import type { Delivery } from '../../api/client';
import { Badge, Copy } from '../../ui/basics';
import { clock, cost, moment, short, text, took } from '../../ui/format';
import { Icon } from '../../ui/icons';
import type { Item } from './items';
import { OnePart, Text } from './part';
import { isInternal, partsOf, speakerOf, spentOf } from '../../state/parts';
import { Tick } from './tick';

const NAMES: Record<string, string> = { user: 'User', system: 'System', developer: 'Developer' };
const MIRROR = 'delivery-mirror'; // of what no model wrote, as other programs know it

export function MessageView({
  item,
  agent,
  delivery,
  onRaw,
  marked,
}: {
  item: Extract<Item, { kind: 'message' }>;
  agent: string;
  delivery?: Delivery;
  onRaw?: (seq: number, id: string) => void;
  marked: boolean;
}) {
  const { message, later, results, ended, cont } = item,
    role = text(message.role),
    at = Number(message.timestamp) || 0;
  const parts = partsOf(message),
    spent = spentOf(message),
    name = speakerOf(message),
    who = name || (role === 'assistant' ? agent : (NAMES[role] ?? role));
  const interrupted = message.state === 'interrupted' || message.stopReason === 'aborted',
    failed = message.stopReason === 'error' || !!message.errorMessage,
    superseded = message.state === 'superseded',
    person = !!message.author,
    internal = isInternal(message);
  return (
    <article
      class={`message ${role} ${internal ? 'internal' : ''} ${cont ? 'cont' : ''} ${marked ? 'marked' : ''}`}
      aria-label={`${who}, ${at ? clock(at) : ''}`}
      data-seq={message.seq}
      tabIndex={-1}
    >
      {!cont && (
        <header>
          <span class={`avatar ${person ? 'person' : role}`} aria-hidden="true">
            {role === 'assistant' && !person ? <Icon name="bot" size={15} /> : (who || '?').slice(0, 1).toUpperCase()}
          </span>
          <strong dir="auto">{who}</strong>
          {internal && <span class="soft">to {agent} only</span>}
          {person && <span class="soft">of the team</span>}
          {name && !person && role !== 'user' && <span class="soft">{NAMES[role] ?? agent}</span>}
          {at > 0 && (
            <time class="soft num" dateTime={new Date(at).toISOString()} title={moment(at)}>
              {clock(at)}
            </time>
          )}
          {text(message.model) && message.model !== MIRROR && <span class="soft model">{text(message.model)}</span>}
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
        {superseded && (
          <p class="notice">
            <Icon name="hand" size={16} />
            Not sent: a person spoke in its place.
          </p>
        )}
        {interrupted && !superseded && (
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
        {role === 'assistant' && <Tick delivery={delivery} sentAs={later?.delivered} />}
        {ended && (
          <span class="num">
            {took(ended.ms)}
            {ended.steps > 0 && ` · ${ended.steps} ${ended.steps === 1 ? 'step' : 'steps'}`}
          </span>
        )}
        {spent && spent.input + spent.output > 0 && (
          <span
            class="num"
            title={`${spent.input} tokens in, ${spent.output} out${spent.cache ? `, ${spent.cache} from the cache` : ''}`}
          >
            {short(spent.input)} in · {short(spent.output)} out{spent.cost > 0 && ` · ${cost(spent.cost)}`}
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
          {onRaw && (
            <button
              type="button"
              class="ghost icon-only"
              title="The raw line (J)"
              aria-label="Show the raw line"
              onClick={() => onRaw(message.seq, message.id)}
            >
              <Icon name="more" size={16} />
            </button>
          )}
        </span>
      </footer>
    </article>
  );
}
