// What of the sessions is shown.
import { useEffect, useState } from 'preact/hooks';
import { withQuery } from '../api/client';
import { channels, filters, read, type Filters as Values } from '../state/sessions';
import { approvals, failed } from '../state/work';
import { Copy } from '../ui/basics';
import { useAsk, useLater } from '../ui/use';

const STATUS = [
  ['', 'All'],
  ['running', 'Running'],
  ['approval', 'Approval'],
  ['unanswered', 'Unanswered'],
  ['failed', 'Failed'],
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
  const agents = useAsk<{ data: { agent: string; sessions: number }[] }>(
    '/v1/agents',
    event => event.type === 'session.created',
  );
  const counts: Record<string, number> = { approval: approvals.value.length, failed: failed.value.length };
  const curl = () =>
    `curl -sS '${location.origin}${withQuery('/v1/sessions', { agent: f.agent, channel: f.channel, chatType: f.chatType, q: f.q, needs: f.status === 'unanswered' ? 'answer' : '' })}' -H "Authorization: Bearer $TOKEN"`;
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
        <Copy value={curl} label="Copy as curl" />
      </div>
      <div class="row wrap selects">
        <select aria-label="Agent" value={f.agent} onChange={event => set({ agent: event.currentTarget.value })}>
          <option value="">Agent</option>
          {agents.data?.data.map(one => (
            <option key={one.agent} value={one.agent}>
              {one.agent} ({one.sessions})
            </option>
          ))}
        </select>
        <select aria-label="Channel" value={f.channel} onChange={event => set({ channel: event.currentTarget.value })}>
          <option value="">Channel</option>
          {channels.value.map(one => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
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
      <div class="segments scroll-x" role="group" aria-label="State of sessions">
        {STATUS.map(([id, name]) => (
          <button key={id} type="button" aria-pressed={f.status === id} onClick={() => set({ status: id })}>
            {name}
            {(counts[id] ?? 0) > 0 && <span class="count small">{counts[id]}</span>}
          </button>
        ))}
      </div>
    </div>
  );
}
