// The way of a message in six stages, from the question that waits for a runner to the answer that a bridge has sent.
import { idOf, type Approval, type Delivery, type Place, type Run } from '../api/client';
import { isGivenUp } from './work';

export const STAGES = ['waiting', 'working', 'asking', 'sending', 'sent', 'failed'] as const;
export type Stage = (typeof STAGES)[number];
// In order of need.
export const GROUPS: readonly Stage[] = ['failed', 'waiting', 'asking', 'working', 'sending', 'sent'];

export type OpenRun = Run & Place;
export type Item = { id: string; place: Place; since: number } & (
  | { stage: 'waiting'; run: OpenRun; isBehind: boolean } // isBehind: another run of its session is at work
  | { stage: 'working'; run: OpenRun }
  | { stage: 'asking'; approval: Approval }
  | { stage: 'sending'; delivery: Delivery; isBehind: boolean } // isBehind: an earlier message to the same people is not sent
  | { stage: 'sent' | 'failed'; delivery: Delivery }
);
type Delivered = Extract<Item, { delivery: Delivery }>;
export const isDelivery = (item: Item): item is Delivered => 'delivery' in item;

const placeOf = ({ agent, key }: Place): Place => ({ agent, key });
// Whom a delivery goes to, as one conversation has it: there messages are sent in order.
export const receiverOf = ({ agent, key, channel, accountId, to, threadId }: Delivery) =>
  JSON.stringify([agent, key, channel, accountId, to, threadId]);
// Returns each delivery once. Of one that was read twice, in two states, the later state counts.
const ORDER: Delivery['status'][] = ['pending', 'leased', 'failed', 'sent'];
function latest(deliveries: readonly Delivery[]): Delivery[] {
  const all = new Map<string, Delivery>();
  for (const one of deliveries) {
    const known = all.get(one.deliveryId);
    const isLater =
      !known ||
      one.attempt > known.attempt ||
      (one.attempt === known.attempt && ORDER.indexOf(one.status) > ORDER.indexOf(known.status));
    if (isLater) all.set(one.deliveryId, one);
  }
  return [...all.values()];
}

function itemOfRun(run: OpenRun, asked: ReadonlySet<string>, busy: ReadonlySet<string>): Item | null {
  const place = placeOf(run);
  if (run.status === 'queued')
    return {
      id: run.runId,
      place,
      stage: 'waiting',
      run,
      since: run.createdAt,
      isBehind: busy.has(idOf(run)),
    };
  // It stands under what it asks.
  return asked.has(run.runId)
    ? null
    : { id: run.runId, place, stage: 'working', run, since: run.startedAt ?? run.createdAt };
}

function itemOfDelivery(delivery: Delivery, first: ReadonlyMap<string, Delivery>): Item | null {
  const id = delivery.deliveryId,
    place = placeOf(delivery);
  if (delivery.status === 'failed')
    return isGivenUp(delivery)
      ? null
      : { id, place, stage: 'failed', delivery, since: delivery.failedAt ?? delivery.createdAt };
  if (delivery.status === 'sent') return { id, place, stage: 'sent', delivery, since: delivery.createdAt };
  const isBehind = first.has(receiverOf(delivery)) && first.get(receiverOf(delivery)) !== delivery;
  return { id, place, stage: 'sending', delivery, since: delivery.createdAt, isBehind };
}

// The oldest stands first where somebody waits, the newest where all is done.
// `isCut`: the oldest deliveries are not known, so neither is which one is the first of its conversation.
export function itemsOf(
  runs: readonly OpenRun[],
  approvals: readonly Approval[],
  deliveries: readonly Delivery[],
  isCut = false,
) {
  const asked = new Set(approvals.map(approval => approval.runId)),
    busy = new Set(runs.filter(run => run.status !== 'queued').map(idOf)),
    first = new Map<string, Delivery>();
  const byAge = latest(deliveries).sort((a, b) => a.createdAt - b.createdAt || a.seq - b.seq);
  for (const delivery of isCut ? [] : byAge)
    if (/^(pending|leased)$/.test(delivery.status) && !first.has(receiverOf(delivery)))
      first.set(receiverOf(delivery), delivery);
  const items: (Item | null)[] = [
    ...runs.map(run => itemOfRun(run, asked, busy)),
    ...approvals.map((approval): Item => ({
      id: approval.id,
      place: placeOf(approval),
      stage: 'asking',
      approval,
      since: approval.askedAt,
    })),
    ...byAge.map(delivery => itemOfDelivery(delivery, first)),
  ];
  const of: Record<Stage, Item[]> = { waiting: [], working: [], asking: [], sending: [], sent: [], failed: [] };
  for (const item of items) if (item) of[item.stage].push(item);
  of.sent.reverse();
  return of;
}
