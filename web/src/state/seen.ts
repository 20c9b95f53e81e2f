// How many messages of each session this browser has looked at: what came later is unread. Kept in the browser.
import { signal } from '@preact/signals';
import { idOf, type Session } from '../api/client';

const NAME = 'sessiond.seen',
  MOST = 2000;
const start = Date.now();

function load(): Map<string, number> {
  try {
    return new Map(JSON.parse(localStorage.getItem(NAME) ?? '[]') as [string, number][]);
  } catch {
    return new Map();
  }
}
const seen = load();
const changed = signal(0);

export const look = (s: Session) => note(idOf(s), Number(s.messageCount) || 0);
// As if its last message had not been looked at.
export const markUnread = (s: Session) => note(idOf(s), Math.max(0, (Number(s.messageCount) || 0) - 1));

function note(id: string, n: number) {
  if (seen.get(id) === n) return;
  seen.delete(id);
  seen.set(id, n); // behind the others: the first ones are forgotten first
  for (const old of seen.keys()) {
    if (seen.size <= MOST) break;
    seen.delete(old);
  }
  changed.value++;
  try {
    localStorage.setItem(NAME, JSON.stringify([...seen]));
  } catch {
    /* private window: kept for this page */
  }
}

export function unread(s: Session): number {
  void changed.value;
  const known = seen.get(idOf(s)),
    n = Number(s.messageCount) || 0;
  if (known !== undefined) return Math.max(0, n - known);
  return Number(s.updatedAt) > start ? n : 0; // what was there before the first visit is not news
}
