// The topics of a session, to choose one; nothing where a session has none.
import { pathOf, type Place } from '../../api/client';
import { setQuery } from '../../state/route';
import { useAsk } from '../../ui/use';

export function Topics({ place, topic }: { place: Place; topic: string }) {
  const { data } = useAsk<{ data: { topic: string; messageCount: number }[] }>(
    pathOf(place, '/topics'),
    event => event.key === place.key && event.type.startsWith('topic.'),
  );
  if (!data?.data.length && !topic) return null;
  return (
    <select
      aria-label="Topic"
      value={topic}
      onChange={event => setQuery({ topic: event.currentTarget.value, at: null })}
    >
      <option value="">Main</option>
      {data?.data.map(one => (
        <option key={one.topic} value={one.topic}>
          {one.topic} ({one.messageCount})
        </option>
      ))}
    </select>
  );
}
