// Keeps the list true by events. A message moves its session up, and a session that appears is read.
import { effect, untracked } from '@preact/signals';
import { idOf, type LiveEvent, type Message, type Place, type Session } from '../api/client';
import { listen, resync, restored } from '../live/hub';
import { isOld, read, readEach, readNamedToo, trouble } from './session_pages';
import { drawSoon, filters, isNarrowed, rows } from './sessions';
import { text } from '../ui/format';
import { isInternal, partsOf } from './parts';
import { approvals, failed, openRuns } from './work';

const PAUSE_MS = 1000; // between two readings of the whole list
const CROWD = 30; // so many appear at once that the list is read anew

const missing = new Map<string, Place>();
let fetching: ReturnType<typeof setTimeout> | 0 = 0;
// A session that is not among the rows has changed: it is read, unless the daemon decides which are shown.
function readMissing() {
  fetching = 0;
  if (isNarrowed() || missing.size > CROWD) {
    missing.clear();
    void read();
    return;
  }
  const places = [...missing.values()];
  missing.clear();
  void readEach(places);
}

function missingSoon(place: Place) {
  missing.set(idOf(place), place);
  fetching ||= setTimeout(readMissing, isNarrowed() ? PAUSE_MS : 60);
}

const CHANGES = new Set(['sessiond.edit', 'sessiond.delete']);
// Makes the `lastMessage` of a session from a new message. Null: the message does not count as one.
function saidIn(message: Message): Session['lastMessage'] | null {
  const role = message.role,
    words = partsOf(message)
      .map(part => (part.kind === 'text' ? part.text : ''))
      .filter(Boolean)
      .join('\n');
  if (message.type !== 'message' || (role !== 'user' && role !== 'assistant') || !words) return null;
  if (isInternal(message) || message.state === 'superseded') return null;
  const { seq, id, from } = message,
    author = message.author as { name: string } | undefined;
  return {
    seq,
    id,
    role,
    from,
    ...(author ? { author } : {}),
    timestamp: Number(message.timestamp) || null,
    text: words.slice(0, 200),
  };
}

const NAMED = new Set(['approval', 'failed']); // filters that show what approvals and deliveries name
const APPEARS = new Set(['session.created', 'session.unarchived', 'session.takeover', 'run.started', 'run.queued']);

function apply(event: LiveEvent) {
  if (event.type === 'store.external_change') {
    void read();
    return;
  }
  if (!event.key || !event.agent || (event.seq && isOld(event.seq))) return;
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
    if (!set && (isNarrowed() || !APPEARS.has(event.type)) && event.type !== 'session.created') return;
    missingSoon({ agent: event.agent, key: event.key });
    return;
  }
  const changed: Record<string, unknown> = { ...s, ...set };
  for (const name of unset ?? []) delete changed[name];
  if (event.type === 'run.started') {
    changed.activeRun = event.data.runId;
    changed.status = 'running';
  }
  if (event.type === 'run.finished') delete changed.activeRun;
  if (event.type === 'message.appended' && !event.topic) {
    const message = event.data.message as Message,
      said = saidIn(message);
    if (said) changed.lastMessage = said;
    // Somebody changed or took back what is shown: what is left of it is asked for.
    if (CHANGES.has(text(message.customType))) missingSoon({ agent: event.agent, key: event.key });
  }
  if (event.type === 'session.reset' || event.type === 'context.cleared') delete changed.lastMessage;
  if (event.type === 'session.takeover') changed.takeover = event.data;
  if (event.type === 'session.handback') delete changed.takeover;
  rows.set(id, changed as Session);
}

export function followSessions() {
  listen(events => {
    for (const event of events) apply(event);
    drawSoon();
  });
  restored.subscribe(() => {
    if (trouble.peek()) void read();
  });
  effect(() => {
    const places = [...approvals.value, ...failed.value, ...openRuns.value];
    untracked(() => {
      if (NAMED.has(filters.value.status)) fetching ||= setTimeout(readMissing, PAUSE_MS);
      else void readNamedToo(places);
    });
  });
  let seen = resync.value;
  resync.subscribe(value => {
    if (value !== seen) {
      seen = value;
      void read();
    }
  });
}
