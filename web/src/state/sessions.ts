// The sessions of the overview: pages as one scrolls, kept true by events. A message moves its session up.
import { computed, signal } from '@preact/signals';
import { ask, pathOf, Refusal, type LiveEvent, type Place, type Session, type Schemas } from '../api/client';
import { listen, resync, restored, seqOf } from '../live/hub';
import { text } from '../ui/format';
import { approvals, failed } from './work';

const FIELDS =
  'agent,updatedAt,name,label,displayName,subject,channel,lastChannel,chatType,messageCount,status,activeRun,archivedAt,firstMessage,needs';
export interface Filters {
  agent: string;
  channel: string;
  chatType: string;
  status: string;
  q: string;
  archived: boolean;
}
export const NO_FILTERS: Filters = { agent: '', channel: '', chatType: '', status: '', q: '', archived: false };

const ENOUGH = 20, // rows at first,
  AHEAD = 1000, // and behind the last one when it comes into sight
  MOST_PAGES = 10;

export const filters = signal<Filters>(NO_FILTERS);
export const reading = signal(false);
export const trouble = signal<unknown>(null);
export const more = signal<string | null>(null);
const rows = new Map<string, Session>();
export const channels = signal<readonly string[]>([]); // of every session that was seen, whatever is shown now
const drawn = signal(0);
let turn = 0;
let asOf = 0;

export const idOf = ({ agent, key }: { agent?: unknown; key?: unknown }) => `${text(agent)}\n${text(key)}`;
export const titleOf = (s: Session) =>
  text(s.name) ||
  text(s.label) ||
  text(s.displayName) ||
  text(s.subject) ||
  text(s.firstMessage) ||
  text(s.key).replace(/^agent:[^:]*:/, '');
export const isRunning = (s: Session) => !!s.activeRun || s.status === 'running' || s.status === 'aborting';
export const rowOf = (place: Place) => {
  void drawn.value;
  return rows.get(idOf(place)) ?? null;
};

export const list = computed(() => {
  void drawn.value;
  const wanted = filters.value.status;
  const all = [...rows.values()].filter(s => wanted !== 'running' || isRunning(s));
  return all.sort((a, b) => Number(b.updatedAt) - Number(a.updatedAt));
});

function keep(s: Session) {
  rows.set(idOf(s), s);
  const channel = text(s.channel);
  if (channel && !channels.value.includes(channel)) channels.value = [...channels.value, channel].sort();
}

let drawing = 0;
const drawSoon = () => {
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    drawn.value++;
  });
};

const queryOf = (f: Filters, cursor: string | null) => ({
  limit: cursor ? 200 : 100, // the first page is drawn soon, the others are for scrolling far
  fields: FIELDS,
  q: f.q,
  agent: f.agent,
  channel: f.channel,
  chatType: f.chatType,
  cursor,
  needs: f.status === 'unanswered' ? 'answer' : '',
  archived: f.archived ? 'any' : '',
});

// The sessions that approvals or failed deliveries name: few, read one by one.
async function readNamed(places: Place[], mine: number) {
  const f = filters.value;
  const found = await Promise.all(
    places.slice(0, 100).map(place => ask<Session>(pathOf(place), { query: { fields: FIELDS } }).catch(() => null)),
  );
  if (mine !== turn) return;
  rows.clear();
  for (const s of found)
    if (s && (!f.agent || s.agent === f.agent) && (!f.channel || s.channel === f.channel)) keep(s);
  more.value = null;
}

async function readPage(cursor: string | null, mine: number): Promise<void> {
  const page = await ask<Schemas['SessionList']>('/v1/sessions', { query: queryOf(filters.value, cursor) });
  if (mine !== turn) return;
  if (!cursor) rows.clear();
  if (!cursor) asOf = seqOf(page.asOf);
  for (const s of page.data as Session[]) if (!cursor || !rows.has(idOf(s))) keep(s);
  more.value = page.page.next;
}

const fitting = () =>
  filters.value.status === 'running' ? [...rows.values()].filter(isRunning).length : rows.size;

// A page may have few rows, or none, and not be the last: the daemon looks at a number of sessions for each request, and who
// runs is seen here. The list asks for more only when it is scrolled, so it gets some rows each time.
async function readUntilEnough(next: boolean, mine: number): Promise<void> {
  const wanted = next ? fitting() + AHEAD : ENOUGH;
  await readPage(next ? more.value : null, mine);
  for (let pages = 1; mine === turn && more.value && fitting() < wanted && pages < MOST_PAGES; pages++)
    await readPage(more.value, mine);
}

export async function read(next = false): Promise<void> {
  if (next && (reading.value || !more.value)) return;
  const mine = next ? turn : ++turn;
  reading.value = true;
  try {
    const status = filters.value.status;
    if (status === 'approval') await readNamed(approvals.value, mine);
    else if (status === 'failed')
      await readNamed([...new Map(failed.value.map(d => [idOf(d), { agent: d.agent, key: d.key }])).values()], mine);
    else await readUntilEnough(next, mine);
    trouble.value = null;
  } catch (error) {
    if (mine === turn) trouble.value = error;
  } finally {
    if (mine === turn) {
      reading.value = false;
      drawSoon();
    }
  }
}

const missing = new Map<string, Place>();
let fetching: ReturnType<typeof setTimeout> | 0 = 0;
// A session that is not among the rows has changed: it is read, unless a filter on text decides on the server.
function readMissing() {
  fetching = 0;
  if (filters.value.q || filters.value.status) {
    missing.clear();
    void read();
    return;
  }
  const places = [...missing.values()].slice(0, 30);
  const crowd = missing.size > 30;
  missing.clear();
  if (crowd) {
    void read();
    return;
  }
  const mine = turn,
    f = filters.value;
  for (const place of places) {
    ask<Session>(pathOf(place), { query: { fields: FIELDS } })
      .then(s => {
        if (
          mine !== turn ||
          (f.channel && s.channel !== f.channel) ||
          (f.chatType && s.chatType !== f.chatType) ||
          (s.archivedAt && !f.archived)
        )
          return;
        keep(s);
        drawSoon();
      })
      .catch((error: unknown) => {
        if (!(error instanceof Refusal)) throw error;
      });
  }
}

function apply(event: LiveEvent) {
  if (event.type === 'store.external_change') {
    missing.set('', { agent: '', key: '' });
    void read();
    return;
  }
  if (!event.key || !event.agent || ((event.seq ?? 0) <= asOf && event.seq)) return;
  const f = filters.value,
    id = idOf(event),
    s = rows.get(id);
  const { set, unset } = event.data as { set?: Record<string, unknown>; unset?: string[] };
  if (event.type === 'session.deleted' || (event.type === 'session.archived' && !f.archived)) {
    rows.delete(id);
    return;
  }
  if (!s) {
    if (f.agent && f.agent !== event.agent) return;
    if (!set && event.type !== 'session.created' && event.type !== 'session.unarchived') return;
    missing.set(id, { agent: event.agent, key: event.key });
    fetching ||= setTimeout(readMissing, 60);
    return;
  }
  const changed: Record<string, unknown> = { ...s, ...set };
  for (const name of unset ?? []) delete changed[name];
  if (event.type === 'run.started') {
    changed.activeRun = event.data.runId;
    changed.status = 'running';
  }
  if (event.type === 'run.finished') delete changed.activeRun;
  rows.set(id, changed as Session);
}

export function follow() {
  listen(events => {
    for (const event of events) apply(event);
    drawSoon();
  });
  restored.subscribe(() => {
    if (trouble.peek()) void read();
  });
  let seen = resync.value;
  resync.subscribe(value => {
    if (value !== seen) {
      seen = value;
      void read();
    }
  });
}
