// Why what was said here did not get to its channel.
import { idOf, type Place } from '../../api/client';
import { sessionHref } from '../../state/route';
import { failed } from '../../state/work';
import { Icon } from '../../ui/icons';

export function Undelivered({ place }: { place: Place }) {
  const own = failed.value.filter(delivery => idOf(delivery) === idOf(place));
  if (!own.length) return null;
  return (
    <ul class="undelivered" aria-label="Not delivered">
      {own.slice(0, 3).map(({ deliveryId, to, error, seq, topic }) => (
        <li key={deliveryId} class="notice bad">
          <Icon name="warn" size={16} />
          Not delivered to {to ?? '?'}: {error ? `${error.code} ${error.message ?? ''}` : 'no reason was given'}.{' '}
          <a href={sessionHref(place, undefined, { at: seq, topic: topic ?? undefined })}>Look</a>
        </li>
      ))}
    </ul>
  );
}
