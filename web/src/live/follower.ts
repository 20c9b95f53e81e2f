// Follows /v1/events: one stream, resumed after every loss from the last id. Runs in the worker, or in the tab that leads.
import type { State, Told } from './protocol';

interface Frame {
  id?: string;
  event?: string;
  data?: string;
  retry?: string;
}

const SILENT_MS = 40_000; // the daemon speaks every 15 s
const BATCH_MS = 30; // events that come together go to the tabs together,
const CROWD_MS = 150; // and many of them seldomer, so that the tabs draw less often
const CROWD = 10;

// Frames of server-sent events. The daemon writes the data of each as one line.
export async function* frames(body: ReadableStream<Uint8Array>, heard: () => void): AsyncGenerator<Frame> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  let frame: Frame = {};
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + decoder.decode(value, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') {
        yield frame;
        frame = {};
        continue;
      }
      const colon = line.indexOf(':');
      if (colon > 0)
        frame[line.slice(0, colon) as keyof Frame] = line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    }
  }
}

export class Follower {
  private running: AbortController | null = null;
  private events: string[] = [];
  private flushing: ReturnType<typeof setTimeout> | 0 = 0;
  private wake: () => void = () => {};
  private crowded = false; // many came at once the last time
  private streams = 0;
  private state: State = 'connecting';
  private retryAt: number | undefined;
  lastId = '';

  constructor(private readonly tell: (told: Told) => void) {}

  open() {
    if (this.running && !this.running.signal.aborted) {
      this.wake();
      return;
    }
    this.running = new AbortController();
    void this.follow(this.running);
  }

  close() {
    this.running?.abort();
    this.running = null;
    this.lastId = '';
    this.say('signed-out');
  }

  // What a tab that comes later must know.
  current(): Told {
    this.flush(); // what lastId covers was told before it
    return { kind: 'state', state: this.state, retryAt: this.retryAt, lastId: this.lastId, streams: this.streams };
  }

  private say(state: State, why?: string, retryAt?: number) {
    this.flush();
    this.state = state;
    this.retryAt = retryAt;
    this.tell({ kind: 'state', state, why, retryAt, lastId: this.lastId, streams: this.streams });
  }

  private flush = () => {
    clearTimeout(this.flushing || undefined);
    this.flushing = 0;
    this.crowded = this.events.length > CROWD;
    if (this.events.length) this.tell({ kind: 'events', events: this.events.splice(0), lastId: this.lastId });
  };

  private take(frame: Frame) {
    if (frame.id) this.lastId = frame.id;
    if (!frame.data || !frame.event) return;
    if (frame.event === 'stream.hello') {
      this.say('live');
      return;
    }
    if (frame.event === 'stream.gap') {
      this.flush();
      this.tell({
        kind: 'gap',
        reason: String((JSON.parse(frame.data) as { reason?: unknown }).reason ?? ''),
        lastId: this.lastId,
      });
      return;
    }
    if (frame.event.startsWith('stream.')) return;
    this.events.push(frame.data);
    this.flushing ||= setTimeout(this.flush, this.crowded ? CROWD_MS : this.events.length > 1 ? BATCH_MS : 4);
  }

  private async follow(own: AbortController) {
    let retry = 2000;
    for (let failures = 0; !own.signal.aborted;) {
      const one = new AbortController();
      const stop = () => one.abort();
      own.signal.addEventListener('abort', stop);
      let last = Date.now();
      const watch = setInterval(() => {
        if (Date.now() - last > SILENT_MS) one.abort();
      }, 5000);
      this.say('connecting');
      try {
        const reply = await fetch('/v1/events', {
          cache: 'no-store',
          signal: one.signal,
          headers: this.lastId ? { 'Last-Event-ID': this.lastId } : {},
        });
        if (reply.status === 400) this.lastId = ''; // an id of another daemon
        if (reply.status === 401) {
          this.running = null;
          this.lastId = '';
          this.say('signed-out');
          return;
        }
        if (reply.status === 403) {
          this.running = null;
          this.say('denied', 'This token may not follow events.');
          return;
        }
        if (reply.ok && reply.body) {
          this.streams++;
          for await (const frame of frames(reply.body, () => {
            last = Date.now();
          })) {
            if (frame.retry) retry = Number(frame.retry) || retry;
            if (frame.event === 'stream.hello') failures = 0;
            this.take(frame);
          }
        }
      } catch {
        /* the connection broke: begun anew below */
      } finally {
        clearInterval(watch);
        own.signal.removeEventListener('abort', stop);
        this.flush();
      }
      if (own.signal.aborted) return;
      const wait = Math.min(15_000, (retry * 2 ** Math.max(0, failures++ - 1)) / 2) * (0.75 + Math.random() / 2);
      this.say('waiting', undefined, Date.now() + wait);
      await new Promise<void>(resolve => {
        this.wake = resolve;
        setTimeout(resolve, wait);
      });
    }
  }
}
