// Keeps the open approvals, the failed deliveries and the queued runs of all sessions that the token sees.
import { computed, signal } from '@preact/signals';
import { ask, idOf, type Approval, type Delivery, type LiveEvent, type Place, type Run } from '../api/client';
import { listen, resync, restored } from '../live/hub';
import { may } from './who';

export const approvals = signal<Approval[]>([]);
export const answerable = computed(() => (may('approve') ? approvals.value : [])); // by this token
export const failed = signal<Delivery[]>([]);
export const queued = signal<ReadonlyMap<string, number>>(new Map()); // session → since when its first run waits for a runner
export const atWork = signal<ReadonlySet<string>>(new Set()); // the sessions in which a run is active
export const openRuns = signal<Place[]>([]); // where runs were open when it was read

let asking: ReturnType<typeof setTimeout> | 0 = 0,
  askingRuns: ReturnType<typeof setTimeout> | 0 = 0;

// Returns whether an operator gave a failed delivery up, or its session was purged: nothing is left to do.
export const isGivenUp = ({ error }: Delivery) => error?.code === 'given_up' || error?.code === 'purged';

export async function readWork() {
  asking = 0;
  if (may('approvals') || may('approve')) {
    await ask<{ data: Approval[] }>('/v1/approvals', { query: { open: true } }).then(
      got => {
        approvals.value = got.data;
      },
      () => {},
    );
  }
  await ask<{ data: Delivery[] }>('/v1/deliveries', { query: { status: 'failed', limit: 100 } }).then(
    got => {
      failed.value = got.data.filter(delivery => !isGivenUp(delivery));
    },
    () => {},
  );
}

export async function readRuns() {
  askingRuns = 0;
  const got = await ask<{ data: (Run & Place)[] }>('/v1/runs').catch(() => null);
  if (!got) return;
  const waiting = new Map<string, number>();
  for (const run of got.data)
    if (run.status === 'queued' && !run.held && !waiting.has(idOf(run))) waiting.set(idOf(run), run.createdAt);
  queued.value = waiting;
  atWork.value = new Set(got.data.filter(run => run.status !== 'queued').map(idOf));
  openRuns.value = [...new Map(got.data.map(run => [idOf(run), { agent: run.agent, key: run.key }])).values()];
}

function follow(events: LiveEvent[]) {
  let next: Map<string, number> | null = null,
    active: Set<string> | null = null;
  for (const event of events) {
    const waits = event.type === 'run.queued';
    if (!waits && event.type !== 'run.started' && event.type !== 'run.finished') continue;
    if (!waits) {
      active ??= new Set(atWork.value);
      if (event.type === 'run.started') active.add(idOf(event));
      else active.delete(idOf(event));
    }
    if (!waits && !(next ?? queued.value).has(idOf(event))) continue;
    next ??= new Map(queued.value);
    if (waits) next.set(idOf(event), event.time);
    else next.delete(idOf(event));
  }
  if (next) queued.value = next;
  if (active) atWork.value = active;
  // Another run may wait behind the one that ended.
  if (events.some(event => event.type === 'run.finished')) askingRuns ||= setTimeout(() => void readRuns(), 1000);
}
const readSoon = () => {
  asking ||= setTimeout(() => void readWork(), 100);
};

const concernsWork = (event: LiveEvent) =>
  event.type.startsWith('approval.') ||
  event.type === 'delivery.failed' ||
  event.type === 'delivery.queued' ||
  event.type === 'delivery.sent' ||
  event.type === 'run.finished';

export function followWork() {
  listen(events => {
    follow(events);
    if (events.some(concernsWork)) readSoon();
  });
  const anew = () => {
    readSoon();
    void readRuns();
  };
  resync.subscribe(anew);
  restored.subscribe(anew);
}
