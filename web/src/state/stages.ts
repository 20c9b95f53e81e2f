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
const to = (delivery: Delivery) =>
  JSON.stringify([delivery.key, delivery.channel, delivery.accountId, delivery.to, delivery.threadId]);

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
  const isBehind = first.get(to(delivery)) !== delivery;
  return { id, place, stage: 'sending', delivery, since: delivery.createdAt, isBehind };
}

// The oldest stands first where somebody waits, the newest where all is done.
export function itemsOf(runs: readonly OpenRun[], approvals: readonly Approval[], deliveries: readonly Delivery[]) {
  const asked = new Set(approvals.map(approval => approval.runId)),
    busy = new Set(runs.filter(run => run.status !== 'queued').map(idOf)),
    first = new Map<string, Delivery>();
  const byAge = [...deliveries].sort((a, b) => a.createdAt - b.createdAt || a.seq - b.seq);
  for (const delivery of byAge)
    if (/^(pending|leased)$/.test(delivery.status) && !first.has(to(delivery))) first.set(to(delivery), delivery);
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
