// One open conversation: the newest page at once, older ones on scrolling up, what happens while it is open.
import { daemonNow } from '../ui/format';
import { signal } from '@preact/signals';
import {
  type Approval,
  ask,
  type Delivery,
  type LiveEvent,
  type Message,
  pathOf,
  type Place,
  Refusal,
  type Run,
  type Schemas,
} from '../api/client';
import { listen, resync, restored, seqOf } from '../live/hub';
import { runningAfter, runningOf, type Running } from './running';

type Page = Schemas['MessagePage'];
const MOST = 900,
  KEPT = 400; // messages, while one is at the end

export class Conversation {
  following = true; // one looks at the end
  readonly messages = signal<Message[]>([]);
  readonly loading = signal(true);
  readonly error = signal<unknown>(null);
  readonly older = signal(false); // there is more above
  readonly prepended = signal(false); // the last change was above: the list keeps its place
  readonly typing = signal<number>(0);
  readonly running = signal<Running | null>(null);
  readonly deliveries = signal<ReadonlyMap<string, Delivery>>(new Map()); // of its newest messages, by their ids
  readonly approvals = signal<readonly Approval[]>([]); // that were answered, or had to be
  readonly session = signal(0); // rises when the session itself changed
  seenSeq = -1; // of the newest message that one has looked at; -1: of none yet
  private before: number | null = null;
  private sessionId = '';
  private asOf = 0;
  private early: LiveEvent[] | null = [];
  private reading = false;
  private readonly ends: (() => void)[] = [];

  constructor(
    readonly place: Place,
    readonly topic: string,
    readonly archive = '',
  ) {
    if (!archive) this.ends.push(listen(events => this.take(events)));
    this.ends.push(
      restored.subscribe(() => {
        if (this.error.peek()) void this.read();
      }),
    );
    let seen = resync.value;
    this.ends.push(
      resync.subscribe(value => {
        if (value !== seen) {
          seen = value;
          void this.read();
        }
      }),
    );
    void this.read();
  }

  end() {
    for (const end of this.ends) end();
    clearTimeout(this.asking || undefined);
    this.reading = true;
  }

  look(seq: number) {
    const last = this.messages.value.at(-1)?.seq ?? 0;
    if (seq <= last) this.seenSeq = Math.max(this.seenSeq, seq); // else it was reset meanwhile
  }

  private page(before: number | null) {
    return ask<Page>(pathOf(this.place, '/messages'), {
      query: {
        order: 'desc',
        limit: 60,
        before,
        topic: this.topic,
        archive: this.archive,
        sessionId: this.archive || before === null ? '' : this.sessionId,
      },
    });
  }

  async read(): Promise<void> {
    this.early ??= [];
    try {
      const page = await this.page(null);
      if (this.sessionId !== page.sessionId) this.seenSeq = -1;
      this.sessionId = page.sessionId;
      this.asOf = seqOf(page.asOf);
      this.before = page.page.nextBefore ?? null;
      this.older.value = page.page.hasMore;
      this.prepended.value = false;
      this.messages.value = (page.data as Message[]).reverse();
      this.error.value = null;
      const early = this.early;
      this.early = null;
      this.take(early);
      void this.readRun();
      void this.readDeliveries();
      void this.readApprovals();
    } catch (error) {
      this.error.value = error;
    } finally {
      this.loading.value = false;
    }
  }

  private asking: ReturnType<typeof setTimeout> | 0 = 0;
  private async readDeliveries() {
    this.asking = 0;
    if (this.archive) return;
    const query = { agent: this.place.agent, key: this.place.key, limit: 100 };
    const page = await ask<{ data: Delivery[] }>('/v1/deliveries', { query }).catch(() => null);
    if (page) this.deliveries.value = new Map(page.data.map(delivery => [delivery.messageId, delivery]));
  }

  private async readApprovals() {
    if (this.archive) return;
    const page = await ask<{ data: Approval[] }>(pathOf(this.place, '/approvals')).catch(() => null);
    if (page)
      this.approvals.value = page.data.filter(
        approval => approval.decision !== null && (approval.topic ?? '') === this.topic,
      );
  }

  private async readRun() {
    if (this.archive) return;
    const before = this.running.value;
    const run = await ask<Run>(pathOf(this.place, '/runs/active')).catch((error: unknown) =>
      error instanceof Refusal && error.status === 404 ? null : before,
    );
    if (this.running.value !== before) return; // an event has told more
    if (run && run !== before && ((run as Run).topic ?? '') === this.topic) this.running.value = runningOf(run as Run);
    if (!run) this.running.value = null;
  }

  // The page above. Answers 409 when the session was reset meanwhile: then all is read anew.
  async readOlder(): Promise<void> {
    if (this.reading || !this.older.value || this.before === null) return;
    this.reading = true;
    try {
      const page = await this.page(this.before);
      this.before = page.page.nextBefore ?? null;
      this.prepended.value = true;
      this.messages.value = [...(page.data as Message[]).reverse(), ...this.messages.value];
      this.older.value = page.page.hasMore;
    } catch (error) {
      if (error instanceof Refusal && error.code === 'session_reset') await this.read();
      else this.error.value = error;
    } finally {
      this.reading = false;
    }
  }

  // Reads upwards until `seq` is there, for a link to one message.
  async reach(seq: number): Promise<boolean> {
    for (let pages = 0; pages < 200; pages++) {
      const first = this.messages.value[0];
      if (!first || first.seq <= seq || !this.older.value) break;
      await this.readOlder();
    }
    return this.messages.value.some(message => message.seq === seq);
  }

  private take(events: LiveEvent[]) {
    const added: Message[] = [];
    for (const event of events) {
      if (event.agent !== this.place.agent || event.key !== this.place.key) continue;
      if (this.early && event.seq) {
        this.early.push(event);
        continue;
      }
      if (event.seq && event.seq <= this.asOf) continue;
      if (this.one(event, added)) {
        void this.read();
        return;
      }
    }
    if (!added.length) return;
    const shown = this.messages.value;
    const last = shown[shown.length - 1]?.seq ?? -1;
    const fresh = added.filter(message => message.seq > last);
    if (!fresh.length) return;
    this.prepended.value = false;
    const all = [...shown, ...fresh];
    // A page that is open all day at the end of a busy conversation keeps the newest; scrolling up reads older ones again.
    if (this.following && all.length > MOST) {
      all.splice(0, all.length - KEPT);
      this.before = all[0]!.seq;
      this.older.value = true;
    }
    this.messages.value = all;
  }

  // True: the conversation is another one now, and is read anew.
  private one(event: LiveEvent, added: Message[]): boolean {
    const { type, data } = event;
    if (/^session\.(reset|deleted|archived|unarchived)|context\.cleared|transcript\.renumbered/.test(type)) {
      this.session.value++;
      return type !== 'session.archived';
    }
    if (type === 'session.updated' || type.startsWith('context.') || type.startsWith('compaction.'))
      this.session.value++;
    if (type.startsWith('delivery.') || (type === 'message.appended' && data.delivery))
      this.asking ||= setTimeout(() => void this.readDeliveries(), 120);
    if (type === 'approval.resolved') void this.readApprovals();
    if ((event.topic ?? '') !== this.topic) return false;
    if (type === 'message.appended' && data.message) {
      added.push(data.message as Message);
      this.typing.value = 0;
      if (this.running.value && (data.message as Message).role === 'assistant')
        this.running.value = { ...this.running.value, text: '', reasoning: '' };
    }
    if (type === 'session.typing') this.typing.value = daemonNow() + 6000;
    const now = this.running.value,
      next = runningAfter(now, event);
    if (next !== now) this.running.value = next;
    return false;
  }
}
