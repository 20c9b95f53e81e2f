// The lines of the audit log: whose they are, which are shown, and which are one.
import { nameOfToken } from '../../state/token_names';
import type { Place, Session } from '../../api/client';
import { rowOf, titleOf } from '../../state/sessions';
import { visible } from '../../ui/format';
import { GROUPS, groupOf, isDecision, isRefused, type Line } from './words';

export interface Wanted {
  actor: string;
  key: string;
  code: string;
  group: string;
  only: boolean; // refusals and decisions
}
// A line, or refusals of the same peer that followed each other: the newest first.
export interface Row {
  line: Line;
  all: Line[];
}

export const NOBODY = 'nobody';
const FOLD_MS = 600_000; // the most between two refusals that are shown as one
const STATUSES = new Set([401, 429]);

export const idOfLine = (line: Line) => `${line.time}.${line.requestId}`; // clients may choose the same id twice
export const actorOf = (line: Line) => line.actor || NOBODY;
export const hostOf = (line: Line) => line.peer.replace(/:\d+$/, '');
export const nameOf = (actor: string) => visible(nameOfToken(actor));
export const whoOf = (line: Line) => (actorOf(line) === NOBODY ? hostOf(line) : nameOf(line.actor));

export function placeOf({ agent, key }: Pick<Line, 'agent' | 'key'>): Place | null {
  const of = agent ?? /^agent:([^:]*):/.exec(key ?? '')?.[1];
  return of && key ? { agent: of, key } : null;
}
export const keyTitle = (place: Place) => visible(titleOf((rowOf(place) ?? place) as Session));
const EVERYWHERE = new Set(['policy', 'tokens', 'maintenance']);
export function whereOf(line: Line): string {
  const place = placeOf(line);
  if (place) return `${keyTitle(place)}, ${visible(place.agent)}`;
  return line.agent ? visible(line.agent) : EVERYWHERE.has(groupOf(line)) && !isRefused(line) ? 'everywhere' : '–';
}

export const wantedOf = (query: URLSearchParams): Wanted => ({
  actor: query.get('actor') ?? '',
  key: query.get('key') ?? '',
  code: query.get('code') ?? '',
  group: GROUPS.find(one => one === query.get('group')) ?? '',
  only: query.get('only') === '1',
});
export const fits = (line: Line, wanted: Wanted) =>
  (!wanted.actor || actorOf(line) === wanted.actor) &&
  (!wanted.key || line.key === wanted.key) &&
  (!wanted.code || line.code === wanted.code) &&
  (!wanted.group || groupOf(line) === wanted.group) &&
  (!wanted.only || isRefused(line) || isDecision(line));

// `lines` with the newest first. What a peer repeats in vain stands where it did so last.
export function fold(lines: Line[]): Row[] {
  const rows: Row[] = [],
    open = new Map<string, Row>();
  for (const line of lines) {
    const id = `${actorOf(line)} ${hostOf(line)}`,
      before = STATUSES.has(line.status) ? open.get(id) : undefined;
    if (before && before.all.at(-1)!.time - line.time < FOLD_MS) {
      before.all.push(line);
      continue;
    }
    const row = { line, all: [line] };
    rows.push(row);
    if (STATUSES.has(line.status)) open.set(id, row);
  }
  return rows;
}

// "403 forbidden"; of several "401, then 429".
export function outcomeOf({ line, all }: Row): string {
  const statuses = [...new Set(all.map(one => one.status))].reverse();
  return statuses.length > 1 ? statuses.join(', then ') : `${line.status}${line.code ? ` ${visible(line.code)}` : ''}`;
}

// The lines of the same conversation, or else of the same actor, ten before it and ten after it.
export function around(line: Line, lines: Line[]): Line[] {
  const same = lines.filter(one =>
    line.key ? one.key === line.key : line.actor ? one.actor === line.actor : hostOf(one) === hostOf(line),
  );
  const at = same.indexOf(line);
  return same.slice(Math.max(0, at - 10), at + 11);
}
