// What a person may do about a message that did not go out.
import { ask, post, type Delivery } from '../../api/client';
import { may } from '../../state/who';
import { isGivenUp, readWork } from '../../state/work';
import { confirm } from '../../ui/dialog';
import { doing } from '../../ui/toast';

const pathTo = (delivery: Delivery) => '/v1/deliveries/' + encodeURIComponent(delivery.deliveryId);

async function retry(delivery: Delivery): Promise<void> {
  if (await doing('It waits for its bridge again', () => post(pathTo(delivery) + '/retry'))) void readWork();
}

async function giveUp(delivery: Delivery): Promise<void> {
  const says = <p>It will not be sent. It stays here, marked as given up.</p>;
  if (
    (await confirm('Give up this message?', says, 'Give up', true)) &&
    (await doing('Given up', () => ask(pathTo(delivery), { method: 'DELETE' })))
  )
    void readWork();
}

export function DeliveryActions({
  delivery,
  isHopeless,
  done,
}: {
  delivery: Delivery;
  isHopeless?: boolean; // another try is possible, but of no use
  done?: () => void;
}) {
  if (!may('maintenance') || isGivenUp(delivery)) return null;
  const failed = delivery.status === 'failed';
  return (
    <>
      {failed && (
        <button
          type="button"
          class={isHopeless ? 'small' : 'primary small'}
          onClick={() => void retry(delivery).then(done)}
        >
          Send again
        </button>
      )}
      {(failed || delivery.status === 'pending') && (
        <button type="button" class="small" onClick={() => void giveUp(delivery).then(done)}>
          Give up…
        </button>
      )}
    </>
  );
}
