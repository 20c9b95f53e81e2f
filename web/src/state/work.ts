// What waits for somebody: open approvals and failed deliveries, over all sessions that the token sees.
import { signal } from '@preact/signals';
import { ask, type Approval, type Delivery, type LiveEvent } from '../api/client';
import { listen, resync, restored } from '../live/hub';
import { may } from './who';

export const approvals = signal<Approval[]>([]);
export const failed = signal<Delivery[]>([]);
export const typing = signal<Record<string, number>>({}); // session → until when somebody types there

let asking: ReturnType<typeof setTimeout> | 0 = 0;

export async function readWork() {
  asking = 0;
  if (may('approve')) {
    await ask<{ data: Approval[] }>('/v1/approvals', { query: { open: true } }).then(
      got => {
        approvals.value = got.data;
      },
      () => {},
    );
  }
  await ask<{ data: Delivery[] }>('/v1/deliveries', { query: { status: 'failed', limit: 100 } }).then(
    got => {
      failed.value = got.data;
    },
    () => {},
  );
}
const readSoon = () => {
  asking ||= setTimeout(() => void readWork(), 100);
};

export const concernsWork = (event: LiveEvent) =>
  event.type.startsWith('approval.') ||
  event.type === 'delivery.failed' ||
  event.type === 'delivery.queued' ||
  event.type === 'delivery.sent' ||
  event.type === 'run.finished';

export function followWork() {
  listen(events => {
    if (events.some(concernsWork)) readSoon();
  });
  resync.subscribe(readSoon);
  restored.subscribe(readSoon);
}
