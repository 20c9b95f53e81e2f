// A delivery, whole: why it did not arrive and what to do, what was to be said, each try, and where it goes.
import type { Delivery } from '../../api/client';
import { sessionHref } from '../../state/route';
import { rowOf, titleOf } from '../../state/sessions';
import { receiverOf } from '../../state/stages';
import { nameOfToken } from '../../state/token_names';
import { isGivenUp } from '../../state/work';
import { channelName } from '../../ui/basics';
import { clock, lasted, moment, seconds, text, visible } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Pairs, SidePanel } from '../../ui/side_panel';
import { Loading, Trouble } from '../../ui/states';
import { useAsk } from '../../ui/use';
import { DeliveryActions } from './delivery_actions';
import { causeOf } from './words';

const STATE: Record<Delivery['status'], string> = {
  pending: 'It waits for its bridge',
  leased: 'Its bridge is sending it',
  sent: 'It was sent',
  failed: 'It was not delivered',
};

// Later messages to the same people that went out before this one.
function Overtaken({ delivery }: { delivery: Delivery }) {
  const { data } = useAsk<{ data: Delivery[] }>(
    `/v1/deliveries?limit=100&status=sent&agent=${encodeURIComponent(delivery.agent)}&key=${encodeURIComponent(delivery.key)}`,
  );
  const later = (data?.data ?? []).filter(
    one => one.createdAt > delivery.createdAt && receiverOf(one) === receiverOf(delivery),
  ).length;
  if (!later) return null;
  return (
    <p class="soft">
      {later === 1 ? 'One later message has' : `${later} later messages have`} reached the same people. If it is sent
      now, it stands after {later === 1 ? 'that' : 'those'}.
    </p>
  );
}

function Tries({ delivery }: { delivery: Delivery }) {
  const tries = delivery.failedTries ?? [];
  if (!tries.length) return null;
  return (
    <section>
      <h3 class="row">
        <span class="grow">Tries</span>
        <span class="soft num">{delivery.attempt}</span>
      </h3>
      <ol class="tries">
        {tries.map(one => (
          <li key={one.attempt}>
            <b>Try {one.attempt}</b>
            <span class="grow bad-text" dir="auto">
              {one.error
                ? `${visible(one.error.code)}${one.error.message ? `: ${visible(one.error.message)}` : ''}`
                : 'The bridge said nothing'}
            </span>
            <time class="num soft" title={moment(one.at)}>
              {clock(one.at)}
            </time>
          </li>
        ))}
        {delivery.status === 'pending' && (
          <li>
            <b>Next</b>
            <span class="grow soft">
              {(delivery.nextAt ?? 0) > seconds.value
                ? `in ${lasted(delivery.nextAt! - seconds.value)}`
                : 'as soon as its bridge asks'}
            </span>
          </li>
        )}
      </ol>
    </section>
  );
}

function Whole({ delivery, again }: { delivery: Delivery; again: () => void }) {
  const isFailed = delivery.status === 'failed' && !isGivenUp(delivery),
    cause = isFailed ? causeOf(delivery) : null,
    waits = delivery.status === 'pending' && !!delivery.failedTries?.length,
    session = rowOf(delivery);
  const conversation = sessionHref(delivery, undefined, { at: delivery.seq, topic: delivery.topic ?? undefined });
  return (
    <>
      <section>
        <p class="panel-title" dir="auto">
          {cause?.title ??
            (isGivenUp(delivery)
              ? 'It was given up'
              : waits
                ? 'It was refused, and is tried again'
                : STATE[delivery.status])}
        </p>
        {cause && <p>{cause.advice}</p>}
        <p class="row wrap">
          <DeliveryActions delivery={delivery} isHopeless={cause?.isHopeless} done={again} />
          <a class={`button small ${cause?.isHopeless ? 'primary' : ''}`} href={conversation}>
            <Icon name="sessions" size={14} />
            Conversation
          </a>
        </p>
        {isFailed && <Overtaken delivery={delivery} />}
      </section>
      {delivery.text && (
        <section>
          <h3>What {delivery.agent} wanted to say</h3>
          <p class="quote pre" dir="auto">
            {delivery.text}
          </p>
        </section>
      )}
      <Tries delivery={delivery} />
      <section>
        <Pairs
          rows={[
            ['Conversation', <a href={conversation}>{session ? titleOf(session) : delivery.key}</a>],
            ['Receiver', `${delivery.to ?? 'nobody'}, ${channelName(delivery.channel)}`],
            ['Thread', delivery.threadId === null ? null : String(delivery.threadId)],
            ['Account', delivery.accountId],
            ['Bridge', delivery.claimedBy && visible(nameOfToken(delivery.claimedBy))],
            ['Stored', moment(delivery.createdAt)],
            ['Platform’s id', text(delivery.platformMessageId)],
          ]}
        />
      </section>
    </>
  );
}

export function DeliveryPanel({ id, onClose }: { id: string; onClose: () => void }) {
  const { data, error, again } = useAsk<Delivery>(
    '/v1/deliveries/' + encodeURIComponent(id),
    event => event.type.startsWith('delivery.') && event.data.deliveryId === id,
  );
  return (
    <SidePanel title="Delivery" raw={data ?? undefined} onClose={onClose}>
      {error ? <Trouble error={error} again={again} /> : !data ? <Loading /> : <Whole delivery={data} again={again} />}
    </SidePanel>
  );
}
