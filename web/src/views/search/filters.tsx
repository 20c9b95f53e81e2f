// What narrows a search. All of it stands in the address.
import { route, setQuery } from '../../state/route';
import { AgentSelect, ChannelSelect, Choice } from '../selects';

const DAY = 86_400_000;
const SINCE = [
  ['1', 'Last day'],
  ['7', 'Last week'],
  ['30', 'Last month'],
  ['365', 'Last year'],
] as const;
const IN = [
  ['user', 'What people said'],
  ['assistant', 'What agents said'],
  ['tool', 'What tools said'],
] as const;

// What the address asks for, as GET /v1/search takes it. Days count back from `now`.
export function narrowedBy(query: URLSearchParams, now: number) {
  const days = Number(query.get('since'));
  return {
    agent: query.get('agent'),
    channel: query.get('channel'),
    from: query.get('from'),
    role: query.get('in'),
    since: days > 0 ? now - days * DAY : null,
    archived: query.get('archived'),
  };
}

export function SearchFilters() {
  const { query } = route.value,
    at = (name: string) => query.get(name) ?? '';
  const set = (name: string) => (value: string) => setQuery({ [name]: value || null });
  return (
    <div class="bar wrap selects hit-filters" role="group" aria-label="Filters">
      <AgentSelect none="Any agent" value={at('agent')} onValue={set('agent')} />
      <ChannelSelect none="Any channel" value={at('channel')} onValue={set('channel')} />
      <input
        aria-label="From"
        placeholder="From anyone"
        value={at('from')}
        dir="auto"
        onChange={event => set('from')(event.currentTarget.value.trim())}
      />
      <Choice label="What" none="Messages and tools" of={IN} value={at('in')} onValue={set('in')} />
      <Choice label="When" none="Any time" of={SINCE} value={at('since')} onValue={set('since')} />
      <label class="check">
        <input
          type="checkbox"
          checked={at('archived') === 'any'}
          onChange={event => set('archived')(event.currentTarget.checked ? 'any' : '')}
        />
        archived
      </label>
    </div>
  );
}
