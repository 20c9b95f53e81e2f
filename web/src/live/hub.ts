// A tab's end of the browser's one event stream: the connection's state as signals, and who listens to events.
import { learnClock } from '../ui/format';
import { signal } from '@preact/signals';
import type { LiveEvent } from '../api/client';
import { lead } from './leader';
import type { Asked, State, Told } from './protocol';

declare const WORKER_URL: string;

export const connection = signal<State>('connecting');
export const retryAt = signal<number | undefined>(undefined);
export const lastId = signal('');
export const lag = signal<number | null>(null);
export const gap = signal<string | null>(null); // why events are missing, until it is read anew
export const resync = signal(0); // rises when what is shown must be read again
export const restored = signal(0); // rises when the stream stands after it did not: what got no answer meanwhile is asked again
export const shared = 'SharedWorker' in globalThis && !new URLSearchParams(location.search).has('no-shared-worker');

type Listener = (events: LiveEvent[]) => void;
const listeners = new Set<Listener>();
let send: (asked: Asked) => void = () => {};
let placed: () => void = () => {};
let known = new Promise<void>(resolve => {
  placed = resolve;
});

function take(told: Told) {
  if (told.lastId) {
    lastId.value = told.lastId;
    placed();
  }
  if (told.kind === 'state') {
    if (told.state === 'live' && connection.value !== 'live') restored.value++;
    connection.value = told.state;
    retryAt.value = told.retryAt;
    if (told.state === 'denied') placed();
  } else if (told.kind === 'gap') {
    gap.value = told.reason;
    resync.value++;
  } else {
    const events = told.events.map(text => JSON.parse(text) as LiveEvent);
    learnClock(events[events.length - 1]!.time);
    lag.value = Math.max(0, Date.now() - events[events.length - 1]!.time);
    for (const listen of listeners) listen(events);
  }
}

export function start() {
  if (!shared) {
    send = lead(take);
    return;
  }
  const policy = (
    globalThis as {
      trustedTypes?: { createPolicy(name: string, rules: object): { createScriptURL(url: string): string } };
    }
  ).trustedTypes?.createPolicy('sessiond', {
    createScriptURL: (url: string) => {
      if (url !== WORKER_URL) throw new TypeError(url);
      return url;
    },
  });
  const worker = new SharedWorker(policy ? policy.createScriptURL(WORKER_URL) : WORKER_URL, 'sessiond');
  worker.port.onmessage = ({ data }: MessageEvent<Told>) => take(data);
  send = asked => worker.port.postMessage(asked);
  addEventListener('pagehide', () => send({ kind: 'bye' }));
  addEventListener('pageshow', event => {
    if (event.persisted) location.reload();
  });
}

export function open() {
  send({ kind: 'open' });
  send({ kind: 'hello' });
}
export function close() {
  send({ kind: 'close' });
  known = new Promise<void>(resolve => {
    placed = resolve;
  });
}

// Resolves when every later event will come: what is read after that misses nothing. Gives up waiting after 3 s.
export const following = () =>
  Promise.race([
    known,
    new Promise<void>(resolve => {
      setTimeout(resolve, 3000);
    }),
  ]);

export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

export const seqOf = (id: string) => Number(id.slice(id.lastIndexOf('-') + 1)) || 0;
