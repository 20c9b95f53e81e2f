// The filters of the requests, and how many lines fit them.
import { setQuery } from '../../state/route';
import { count } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { actorOf, nameOf, NOBODY, type Wanted } from './lines';
import { Chips } from './switch';
import { GROUPS, type Line } from './words';

export function Bar({ wanted, lines, shown }: { wanted: Wanted; lines: Line[]; shown: number }) {
  const actors = new Set(lines.map(actorOf));
  if (wanted.actor) actors.add(wanted.actor); // what is set is never hidden
  const named = [...actors].map(id => [id, id === NOBODY ? 'No token' : nameOf(id)] as const);
  named.sort(([, a], [, b]) => a.localeCompare(b));
  return (
    <div class="bar wrap audit-bar">
      <select aria-label="Who" value={wanted.actor} onChange={event => setQuery({ actor: event.currentTarget.value })}>
        <option value="">Anyone</option>
        {named.map(([id, name]) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
      <select
        aria-label="Action"
        value={wanted.group}
        onChange={event => setQuery({ group: event.currentTarget.value })}
      >
        <option value="">Any action</option>
        {GROUPS.map(group => (
          <option key={group} value={group}>
            {group[0]!.toUpperCase() + group.slice(1)}
          </option>
        ))}
      </select>
      <button type="button" aria-pressed={wanted.only} onClick={() => setQuery({ only: wanted.only ? null : '1' })}>
        Only refusals and decisions
        {wanted.only && <Icon name="close" size={12} />}
      </button>
      <Chips names={['key', 'code']} />
      <span class="spacer" />
      <span class="soft small num" role="status">
        {lines.length > 0 && `${count(shown)} of ${count(lines.length)} lines`}
      </span>
    </div>
  );
}
