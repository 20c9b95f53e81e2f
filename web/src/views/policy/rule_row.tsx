// One rule: what it matches and what it says.
import type { Rule } from './draft';
import { Badge } from '../../ui/basics';

const FIELDS = [
  ['channel', 'Channel'],
  ['chatType', 'Chat'],
  ['keyPrefix', 'Key begins with'],
  ['to', 'To'],
  ['accountId', 'Account'],
] as const;

export function RuleRow({
  n,
  rule,
  marked,
  allowed,
  last,
  fault,
  onChange,
  onMove,
}: {
  n: number;
  rule: Rule;
  marked: boolean;
  allowed: boolean;
  last: boolean;
  fault: boolean;
  onChange: (rule: Rule | null) => void;
  onMove: (by: number) => void;
}) {
  const match = (rule.match ?? {}) as Record<string, string | undefined>;
  const set = (name: string, value: string) => {
    const next = { ...match, [name]: value };
    if (!value) delete next[name];
    onChange({ ...rule, match: next });
  };
  return (
    <li class={`rule ${marked ? 'marked' : ''} ${fault ? 'bad' : ''}`} aria-label={`Rule ${n + 1}`}>
      <span class="num soft">{n + 1}</span>
      {allowed ? (
        <select
          aria-label={`Action of rule ${n + 1}`}
          value={rule.action}
          onChange={event => onChange({ ...rule, action: event.currentTarget.value as 'allow' })}
        >
          <option>allow</option>
          <option>deny</option>
        </select>
      ) : (
        <Badge tone={rule.action === 'deny' ? 'bad' : 'good'}>{rule.action}</Badge>
      )}
      <div class="rule-match">
        {FIELDS.map(([name, label]) =>
          allowed ? (
            <label key={name} class={`mini ${match[name] ? 'set' : ''}`}>
              <span>{label}</span>
              <input
                value={match[name] ?? ''}
                title={match[name]}
                placeholder="any"
                onInput={event => set(name, event.currentTarget.value)}
              />
            </label>
          ) : (
            match[name] && (
              <span key={name}>
                {label} <code>{match[name]}</code>
              </span>
            )
          ),
        )}
        {match.rawKeyPrefix && (
          <span class="soft">
            raw key begins with <code>{match.rawKeyPrefix}</code>
          </span>
        )}
      </div>
      {allowed && (
        <span class="rule-tools">
          <button
            type="button"
            class="ghost small"
            disabled={n === 0}
            aria-label={`Move rule ${n + 1} up`}
            onClick={() => onMove(-1)}
          >
            ↑
          </button>
          <button
            type="button"
            class="ghost small"
            disabled={last}
            aria-label={`Move rule ${n + 1} down`}
            onClick={() => onMove(1)}
          >
            ↓
          </button>
          <button type="button" class="ghost small" aria-label={`Remove rule ${n + 1}`} onClick={() => onChange(null)}>
            ✕
          </button>
        </span>
      )}
    </li>
  );
}
