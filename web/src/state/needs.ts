// Decides what a conversation needs from a person now. The list shows the needy ones first, then those that run, then
// the rest.
import { computed } from '@preact/signals';
import { idOf, type Approval, type Delivery, type Session } from '../api/client';
import { now, text, visible } from '../ui/format';
import { filters, isRunning, list, rowWith } from './sessions';
import { isMine, takeoverOf } from './takeover';
import { answerable, failed, queued } from './work';

export interface Need {
  rank: number; // the lowest stands first
  tone: 'warn' | 'bad' | 'info';
  icon: string;
  words: string; // empty: what was said says it
  since?: number; // it has waited from then on
  until?: number; // it is decided then
}
export interface Group {
  title: string; // empty: the list has one group
  sessions: Session[];
}

export const UNCLAIMED_MS = 30_000; // a run that waits so long is taken by nobody
export const RECENT_MS = 24 * 3_600_000; // a run that failed before is history

const firstOf = <T extends { agent: string; key: string }>(all: readonly T[]) => {
  const map = new Map<string, T>();
  for (const one of all) if (!map.has(idOf(one))) map.set(idOf(one), one);
  return map;
};
const asked = computed(() => firstOf<Approval>(answerable.value)),
  undelivered = computed(() => firstOf<Delivery>(failed.value));

const openedAt = (session: Session) => (Array.isArray(session.needs) ? Number(session.needs[0]?.since) || 0 : 0);

export function needOf(session: Session): Need | null {
  const id = idOf(session),
    approval = asked.value.get(id),
    takeover = takeoverOf(session),
    delivery = undelivered.value.get(id),
    since = openedAt(session),
    waits = queued.value.get(id) ?? Infinity;
  if (approval)
    return {
      rank: 0,
      tone: 'warn',
      icon: 'key',
      words: `asks to use ${visible(approval.tool)}`,
      until: approval.deadline,
    };
  if (takeover) {
    const words = isMine(takeover) ? 'You speak' : `${takeover.name} speaks`;
    return since
      ? { rank: 1, tone: 'warn', icon: 'hand', words: `${words}, unanswered`, since }
      : { rank: 4, tone: 'info', icon: 'hand', words, since: takeover.since };
  }
  if (delivery)
    return {
      rank: 3,
      tone: 'bad',
      icon: 'warn',
      words: `Not delivered: ${text(delivery.error?.message) || text(delivery.error?.code) || 'no reason was given'}`,
      since: delivery.createdAt,
    };
  if (isRunning(session)) return null;
  if (now.value - waits > UNCLAIMED_MS)
    return { rank: 2, tone: 'warn', icon: 'clock', words: 'No runner has taken this', since: waits };
  if (since) return { rank: 2, tone: 'warn', icon: 'clock', words: '', since };
  const ended = Number(session.endedAt) || 0;
  if (session.status === 'failed' && now.value - ended < RECENT_MS)
    return { rank: 3, tone: 'bad', icon: 'warn', words: 'The run failed', since: ended };
  return null;
}

// In "Needs you" the most urgent kind comes first. Within a kind the earliest deadline or the longest wait comes first.
export const groups = computed<Group[]>(() => {
  const { status, q } = filters.value;
  if (status || q) return [{ title: '', sessions: list.value }];
  const needy: { session: Session; need: Need }[] = [],
    working: Session[] = [],
    earlier: Session[] = [];
  const named = new Set([asked, undelivered, queued].flatMap(map => [...map.value.keys()].map(rowWith)));
  for (const session of list.value) {
    const mayNeed = session.needs || session.takeover || session.status === 'failed' || named.has(session);
    const need = mayNeed ? needOf(session) : null;
    if (need) needy.push({ session, need });
    else (isRunning(session) ? working : earlier).push(session);
  }
  const at = ({ until, since }: Need) => until ?? since ?? 0;
  needy.sort((a, b) => a.need.rank - b.need.rank || at(a.need) - at(b.need));
  return [
    { title: 'Needs you', sessions: needy.map(one => one.session) },
    { title: 'Working', sessions: working },
    { title: 'Earlier', sessions: earlier },
  ];
});
