// What of the sessions is shown.
import { useEffect, useState } from 'preact/hooks';
import { withQuery } from '../api/client';
import { read } from '../state/session_pages';
import { filters, type Filters as Values } from '../state/sessions';
import { answerable, failed } from '../state/work';
import { Copy } from '../ui/basics';
import { Icon } from '../ui/icons';
import { useLater } from '../ui/use';
import { AgentSelect, ChannelSelect } from './selects';

const STATUS = [
  ['', 'All'],
  ['running', 'Running'],
  ['approval', 'Approval'],
  ['unanswered', 'Unanswered'],
  ['failed', 'Not delivered'],
  ['held', 'Taken over'],
] as const;

function set(changes: Partial<Values>) {
  filters.value = { ...filters.value, ...changes };
  void read();
}

export function Filters() {
  const f = filters.value,
    [typed, setTyped] = useState(f.q),
    later = useLater(typed, 200);
  useEffect(() => {
    if (later !== filters.value.q) set({ q: later });
  }, [later]);
  // What is set is never hidden.
  const [open, setOpen] = useState(false),
    shown = open || !!(f.agent || f.channel || f.chatType || f.status || f.archived);
  return (
    <div class="filters">
      <div class="row">
        <input
          type="search"
          class="grow"
          value={typed}
          placeholder="Find sessions   /"
          aria-label="Find sessions"
          onInput={event => setTyped(event.currentTarget.value)}
        />
        <button
          type="button"
          class="icon-only"
          aria-label="Filters"
          title="Filters"
          aria-expanded={shown}
          aria-pressed={shown}
          onClick={() => setOpen(!shown)}
        >
          <Icon name="filter" size={16} />
        </button>
      </div>
      {shown && <More f={f} />}
    </div>
  );
}

function More({ f }: { f: Values }) {
  const counts: Record<string, number> = { approval: answerable.value.length, failed: failed.value.length };
  const curl = () =>
    `curl -sS '${location.origin}${withQuery('/v1/sessions', { agent: f.agent, channel: f.channel, chatType: f.chatType, q: f.q, needs: f.status === 'unanswered' ? 'answer' : '', held: f.status === 'held' ? 'takeover' : '' })}' -H "Authorization: Bearer $TOKEN"`;
  return (
    <>
      <div class="row wrap selects">
        <AgentSelect value={f.agent} onValue={agent => set({ agent })} />
        <ChannelSelect value={f.channel} onValue={channel => set({ channel })} />
        <select
          aria-label="Kind of chat"
          value={f.chatType}
          onChange={event => set({ chatType: event.currentTarget.value })}
        >
          <option value="">Chat</option>
          <option value="direct">direct</option>
          <option value="group">group</option>
          <option value="channel">channel</option>
        </select>
        <label class="check">
          <input
            type="checkbox"
            checked={f.archived}
            onChange={event => set({ archived: event.currentTarget.checked })}
          />{' '}
          archived
        </label>
      </div>
      <div class="row wrap">
        <div class="segments" role="group" aria-label="State of sessions">
          {STATUS.map(([id, name]) => (
            <button key={id} type="button" aria-pressed={f.status === id} onClick={() => set({ status: id })}>
              {name}
              {(counts[id] ?? 0) > 0 && <span class="count small">{counts[id]}</span>}
            </button>
          ))}
        </div>
        <Copy value={curl} label="Copy as curl" />
      </div>
    </>
  );
}
