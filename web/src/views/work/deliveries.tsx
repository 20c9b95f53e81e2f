// Messages on their way to a channel: their state, why one failed, and sending it after all.
import { useState } from 'preact/hooks';
import { withQuery, type Delivery } from '../../api/client';
import { sessionHref } from '../../state/route';
import { Age, Badge, Channel, type Tone } from '../../ui/basics';
import { Empty, Loading, Trouble } from '../../ui/states';
import { useAsk } from '../../ui/use';
import { DeliveryActions } from './delivery_actions';

const TONES: Record<string, Tone> = { pending: 'plain', leased: 'info', sent: 'good', failed: 'bad' };
const WORDS: Record<string, string> = {
  '': 'all',
  failed: 'failed',
  pending: 'waiting',
  leased: 'being sent',
  sent: 'sent',
};
const FIRST = ['failed', 'pending', 'leased', 'sent'];

function DeliveryRow({ delivery, again }: { delivery: Delivery; again: () => void }) {
  return (
    <li class="card">
      <header>
        <Badge tone={TONES[delivery.status] ?? 'plain'}>{WORDS[delivery.status] ?? delivery.status}</Badge>
        <Channel name={delivery.channel} />
        <span class="cut">to {delivery.to ?? '?'}</span>
        <span class="spacer" />
        <span class="soft num">attempt {delivery.attempt}</span>
        <Age at={delivery.createdAt} />
      </header>
      {delivery.error && (
        <p class={`notice ${delivery.status === 'failed' ? 'bad' : 'warn'}`}>
          <strong>{delivery.error.code}</strong>
          {delivery.error.message && `: ${delivery.error.message}`}
        </p>
      )}
      {delivery.text && (
        <p class="quote" dir="auto">
          {delivery.text.slice(0, 400)}
        </p>
      )}
      <footer>
        <a href={sessionHref(delivery, undefined, { at: delivery.seq, topic: delivery.topic ?? undefined })}>
          In its conversation
        </a>
        <span class="spacer" />
        <DeliveryActions delivery={delivery} done={again} />
      </footer>
    </li>
  );
}

export function Deliveries() {
  const [state, setState] = useState('');
  const { data, error, again } = useAsk<{ data: Delivery[] }>(
    withQuery('/v1/deliveries', { limit: 50, status: state }),
    event => event.type.startsWith('delivery.') || (event.type === 'message.appended' && !!event.data.delivery),
  );
  // What failed stands first: somebody has to look at it.
  const sorted = [...(data?.data ?? [])].sort((a, b) => FIRST.indexOf(a.status) - FIRST.indexOf(b.status));
  return (
    <>
      <div class="section-head">
        <h2>Deliveries</h2>
        <div class="segments" role="group" aria-label="State of deliveries">
          {Object.keys(WORDS).map(one => (
            <button key={one} type="button" aria-pressed={state === one} onClick={() => setState(one)}>
              {WORDS[one]}
            </button>
          ))}
        </div>
      </div>
      {error ? (
        <Trouble error={error} again={again} />
      ) : !data ? (
        <Loading />
      ) : data.data.length ? (
        <ul class="cards">
          {sorted.map(one => (
            <DeliveryRow key={one.deliveryId} delivery={one} again={again} />
          ))}
        </ul>
      ) : (
        <Empty title={state ? `No delivery is ${WORDS[state]}` : 'No deliveries'} icon="send">
          Messages that bridges have taken over appear here.
        </Empty>
      )}
    </>
  );
}
