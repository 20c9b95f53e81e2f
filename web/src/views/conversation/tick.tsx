// What becomes of a message on its way to people.
import type { Delivery } from '../../api/client';
import { daemonNow, lasted, seconds, text } from '../../ui/format';
import { isGivenUp } from '../../state/work';
import { channelName } from '../../ui/basics';
import { Icon } from '../../ui/icons';
import { DeliveryActions } from '../work/delivery_actions';

function NextTry({ delivery }: { delivery: Delivery }) {
  return (
    <>
      {text(delivery.error?.message) || 'It did not go out'}. Try {delivery.attempt + 1} in{' '}
      {lasted((delivery.nextAt ?? 0) - seconds.value)}
    </>
  );
}

export function Tick({ delivery, sentAs }: { delivery?: Delivery; sentAs?: string }) {
  const on = channelName(delivery?.channel ?? '');
  if (delivery && isGivenUp(delivery))
    return (
      <span class="tick">
        <Icon name="none" size={14} />
        Given up
      </span>
    );
  if (delivery?.status === 'failed')
    return (
      <span class="tick bad-text">
        <Icon name="warn" size={14} />
        Not delivered: {text(delivery.error?.message) || text(delivery.error?.code) || 'no reason was given'}
        <DeliveryActions delivery={delivery} />
      </span>
    );
  if (delivery?.status === 'pending' && (delivery.nextAt ?? 0) > daemonNow())
    return (
      <span class="tick warn-text">
        <Icon name="again" size={14} />
        <NextTry delivery={delivery} />
      </span>
    );
  if (delivery?.status === 'pending' || delivery?.status === 'leased')
    return (
      <span class="tick">
        <Icon name="clock" size={14} />
        {delivery.status === 'leased' ? 'Being sent to' : 'Not yet collected for'} {on}
      </span>
    );
  if (!delivery && !sentAs) return null;
  return (
    <span class="tick" title={sentAs && `As ${sentAs}`}>
      <span class="good-text">
        <Icon name="check" size={14} />
      </span>
      {delivery ? <>Sent to {on}</> : 'Delivered'}
    </span>
  );
}
