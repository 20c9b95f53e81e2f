// The sessions of the list: those that were read, the filters, and the order. The newest message stands first.
import { computed, signal } from '@preact/signals';
import { idOf, type Place, type Session } from '../api/client';
import { text } from '../ui/format';

export interface Filters {
  agent: string;
  channel: string;
  chatType: string;
  status: string;
  q: string;
  archived: boolean;
}
export const NO_FILTERS: Filters = { agent: '', channel: '', chatType: '', status: '', q: '', archived: false };

export const filters = signal<Filters>(NO_FILTERS);
export const rows = new Map<string, Session>();
export const channels = signal<readonly string[]>([]); // of every session that was seen, whatever is shown now
const drawn = signal(0);

export const titleOf = (s: Session) =>
  text(s.name) ||
  text(s.label) ||
  text(s.displayName) ||
  text(s.subject) ||
  text(s.firstMessage) ||
  text(s.key).replace(/^agent:[^:]*:/, '');
export const channelOf = (s: Session | null) => text(s?.lastChannel) || text(s?.channel);
export const isRunning = (s: Session) => !!s.activeRun || s.status === 'running' || s.status === 'aborting';
export const rowWith = (id: string) => {
  void drawn.value;
  return rows.get(id) ?? null;
};
export const rowOf = (place: Place) => rowWith(idOf(place));

export const list = computed(() => {
  void drawn.value;
  const wanted = filters.value.status;
  const all = [...rows.values()].filter(
    s => (wanted !== 'running' || isRunning(s)) && (wanted !== 'held' || !!s.takeover),
  );
  return all.sort((a, b) => Number(b.updatedAt) - Number(a.updatedAt));
});

export function keep(s: Session) {
  rows.set(idOf(s), s);
  const channel = text(s.channel);
  if (channel && !channels.value.includes(channel)) channels.value = [...channels.value, channel].sort();
}

let drawing = 0;
export const drawSoon = () => {
  drawing ||= requestAnimationFrame(() => {
    drawing = 0;
    drawn.value++;
  });
};

// Returns whether the daemon decides which sessions are shown: by a text, or by a state.
export const isNarrowed = () => !!filters.value.q || !!filters.value.status;
export function fits(s: Session): boolean {
  const f = filters.value;
  return (
    (!f.agent || s.agent === f.agent) &&
    (!f.channel || s.channel === f.channel) &&
    (!f.chatType || s.chatType === f.chatType) &&
    (!s.archivedAt || f.archived)
  );
}
