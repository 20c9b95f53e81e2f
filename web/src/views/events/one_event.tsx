// An event, whole.
import { sessionHref, hrefOf } from '../../state/route';
import { Copy, Json } from '../../ui/basics';
import { Dialog } from '../../ui/dialog';
import { moment } from '../../ui/format';
import { epoch } from './epoch';
import type { Row } from './row';

export function OneEvent({ event, onClose }: { event: Row; onClose: () => void }) {
  const { n: _n, ...shown } = event;
  return (
    <Dialog title={event.type} onClose={onClose} look="wide">
      <p class="soft">
        {moment(event.time)}
        {event.actor && ` by ${event.actor}`}
        {event.key && event.agent && (
          <>
            {' '}
            · <a href={sessionHref({ agent: event.agent, key: event.key })}>{event.key}</a>
          </>
        )}
      </p>
      <Json value={shown} label="The event" />
      <footer>
        {event.seq && (
          <a class="button" href={hrefOf('audit', [], { view: 'events', from: `${epoch.value}-${event.seq - 1}` })}>
            Begin here
          </a>
        )}
        <Copy value={() => JSON.stringify(shown)}>Copy JSON</Copy>
      </footer>
    </Dialog>
  );
}
