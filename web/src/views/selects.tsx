// Choices of a filter: which agent, which channel, and others of fixed words.
import { channels } from '../state/sessions';
import { useAsk } from '../ui/use';

interface Chosen {
  value: string;
  none?: string; // what stands there when nothing is chosen
  onValue: (value: string) => void;
}

export function Choice({
  label,
  none,
  of,
  value,
  onValue,
}: Chosen & { label: string; of: readonly (readonly [value: string, name: string])[] }) {
  return (
    <select
      class={value ? 'set' : ''}
      aria-label={label}
      value={value}
      onChange={event => onValue(event.currentTarget.value)}
    >
      <option value="">{none ?? label}</option>
      {of.map(([one, name]) => (
        <option key={one} value={one}>
          {name}
        </option>
      ))}
    </select>
  );
}

export function AgentSelect(chosen: Chosen) {
  const agents = useAsk<{ data: { agent: string; sessions: number }[] }>(
    '/v1/agents',
    event => event.type === 'session.created',
  );
  const known = agents.data?.data.map(one => [one.agent, `${one.agent} (${one.sessions})`] as const) ?? [];
  return <Choice label="Agent" of={withChosen(known, chosen.value)} {...chosen} />;
}

export const ChannelSelect = (chosen: Chosen) => (
  <Choice
    label="Channel"
    of={withChosen(
      channels.value.map(one => [one, one] as const),
      chosen.value,
    )}
    {...chosen}
  />
);

// What an address names may be one that is not known here.
const withChosen = (known: (readonly [string, string])[], value: string) =>
  !value || known.some(([one]) => one === value) ? known : [...known, [value, value] as const];
