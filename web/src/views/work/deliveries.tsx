// Messages on their way to a channel: their state, why one failed, and sending it after all.
import { useState } from 'preact/hooks';
import { ask, post, withQuery, type Delivery } from '../../api/client';
import { sessionHref } from '../../state/route';
import { may } from '../../state/who';
import { readWork } from '../../state/work';
import { Age, Badge, Channel, type Tone } from '../../ui/basics';
import { confirm } from '../../ui/dialog';
import { Empty, Loading, Trouble } from '../../ui/states';
import { doing } from '../../ui/toast';
import { useAsk } from '../../ui/use';

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
  const path = '/v1/deliveries/' + encodeURIComponent(delivery.deliveryId);
  const retry = () =>
    doing('It waits for its bridge again', () => post(path + '/retry')).then(() => {
      again();
      void readWork();
    });
  const drop = async () => {
    if (
      await confirm(
        'Give the delivery up',
        <p>It is not sent any more. The message stays in the transcript.</p>,
        'Give it up',
        true,
      )
    )
      await doing('Given up', () => ask(path, { method: 'DELETE' })).then(again);
  };
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
        {may('maintenance') && delivery.status === 'failed' && (
          <button type="button" class="primary small" onClick={() => void retry()}>
            Retry
          </button>
        )}
        {may('maintenance') && (delivery.status === 'failed' || delivery.status === 'pending') && (
          <button type="button" class="small" onClick={() => void drop()}>
            Give up
          </button>
        )}
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
