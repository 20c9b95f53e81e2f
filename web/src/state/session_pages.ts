// Reads the sessions of the list: pages as one scrolls, and what needs somebody however old it is.
import { signal } from '@preact/signals';
import { ask, idOf, pathOf, type Place, type Schemas, type Session } from '../api/client';
import { seqOf } from '../live/hub';
import { RECENT_MS } from './needs';
import { drawSoon, filters, fits, isNarrowed, keep, rows, type Filters } from './sessions';
import { approvals, failed, openRuns } from './work';

export const FIELDS =
  'agent,updatedAt,name,label,displayName,subject,channel,lastChannel,chatType,messageCount,status,activeRun,endedAt,archivedAt,firstMessage,needs,takeover';
const ENOUGH = 20, // rows at first,
  AHEAD = 1000, // and behind the last one when it comes into sight
  MOST_PAGES = 10,
  NEEDY_PAGES = 3, // of sessions that need somebody
  MOST_NAMED = 100; // sessions that are read one by one

export const reading = signal(false);
export const trouble = signal<unknown>(null);
export const more = signal<string | null>(null);
let turn = 0; // of what is shown; rises when it is read anew
let asOf = 0;
// Returns whether the list was read after the event.
export const isOld = (seq: number) => seq <= asOf;

const queryOf = (f: Filters, cursor: string | null) => ({
  limit: cursor ? 200 : 100, // the first page is drawn soon, the others are for scrolling far
  fields: FIELDS,
  include: cursor ? '' : 'lastMessage', // of those that one comes to by scrolling far the daemon need not open each transcript
  q: f.q,
  agent: f.agent,
  channel: f.channel,
  chatType: f.chatType,
  cursor,
  status: f.status === 'running' ? 'running,aborting' : '',
  needs: f.status === 'unanswered' ? 'answer' : '',
  held: f.status === 'held' ? 'takeover' : '',
  archived: f.archived ? 'any' : '',
});

const readOne = (place: Place) =>
  ask<Session>(pathOf(place), { query: { fields: FIELDS, include: 'lastMessage' } }).catch(() => null);

// Reads sessions one by one, and puts those that fit into the list.
export async function readEach(places: Place[], begin: () => void = () => {}): Promise<void> {
  const mine = turn,
    found = await Promise.all(places.map(readOne));
  if (mine !== turn) return;
  begin();
  for (const s of found) {
    const known = s && rows.get(idOf(s)); // an event may have told more
    if (s && fits(s) && !(Number(known?.updatedAt) > Number(s.updatedAt))) keep(s);
  }
  drawSoon();
}

// The sessions that approvals or failed deliveries name, and no others.
const readNamed = (places: Place[]) =>
  readEach(places.slice(0, MOST_NAMED), () => {
    rows.clear();
    more.value = null;
  });

async function readPage(cursor: string | null, mine: number): Promise<void> {
  const page = await ask<Schemas['SessionList']>('/v1/sessions', { query: queryOf(filters.value, cursor) });
  if (mine !== turn) return;
  if (!cursor) rows.clear();
  if (!cursor) asOf = seqOf(page.asOf);
  for (const s of page.data as Session[]) if (!cursor || !rows.has(idOf(s))) keep(s);
  more.value = page.page.next;
}

// Reads the sessions that are held, run, wait for an answer or failed today. They are in the list however old they are.
async function readNeedy(mine: number): Promise<void> {
  const wants = [
    { held: 'takeover' },
    { needs: 'answer' },
    { status: 'failed', updatedSince: Date.now() - RECENT_MS },
    { status: 'running,aborting' },
  ];
  for (const want of wants) {
    let cursor: string | null = null;
    for (let pages = 0; pages < NEEDY_PAGES; pages++) {
      const page: Schemas['SessionList'] = await ask('/v1/sessions', {
        query: { ...queryOf(filters.value, cursor), ...want },
      });
      if (mine !== turn) return;
      for (const s of page.data as Session[]) if (!rows.has(idOf(s))) keep(s);
      drawSoon();
      cursor = page.page.next;
      if (!cursor) break;
    }
  }
}

const tried = new Set<string>(); // that were asked for since the list was read
// Reads the sessions that an open approval, a failed delivery or an open run names, when they are not in the list.
export async function readNamedToo(places: Place[]): Promise<void> {
  if (isNarrowed()) return;
  const { agent } = filters.value;
  const absent = places.filter(place => {
    const id = idOf(place);
    if (rows.has(id) || tried.has(id) || (agent && agent !== place.agent)) return false;
    return tried.size < MOST_NAMED && !!tried.add(id);
  });
  if (absent.length) await readEach(absent);
}

// A page may have few rows, or none, and not be the last: the daemon looks at a number of sessions for each request. The
// list asks for more only when it is scrolled, so it gets some rows each time.
async function readUntilEnough(next: boolean, mine: number): Promise<void> {
  const wanted = next ? rows.size + AHEAD : ENOUGH;
  await readPage(next ? more.value : null, mine);
  for (let pages = 1; mine === turn && more.value && rows.size < wanted && pages < MOST_PAGES; pages++)
    await readPage(more.value, mine);
}

export async function read(next = false): Promise<void> {
  if (next && (reading.value || !more.value)) return;
  const mine = next ? turn : ++turn;
  reading.value = true;
  try {
    const status = filters.value.status;
    if (status === 'approval') await readNamed(approvals.value);
    else if (status === 'failed')
      await readNamed([...new Map(failed.value.map(d => [idOf(d), { agent: d.agent, key: d.key }])).values()]);
    else await readUntilEnough(next, mine);
    if (mine !== turn) return;
    trouble.value = null;
    drawSoon();
    if (!next && !isNarrowed()) {
      reading.value = false;
      await readNeedy(mine);
      if (mine !== turn) return;
      tried.clear();
      void readNamedToo([...approvals.value, ...failed.value, ...openRuns.value]);
    }
  } catch (error) {
    if (mine === turn) trouble.value = error;
  } finally {
    if (mine === turn) {
      reading.value = false;
      drawSoon();
    }
  }
}
