// The list of sessions under the heads of their groups. Rows do not move while somebody points at one or moves through them by keys.
import type { MutableRef } from 'preact/hooks';
import { useEffect, useRef, useState } from 'preact/hooks';
import { VList, type VListHandle } from 'virtua';
import { idOf, type Place, type Session } from '../api/client';
import { groups, type Group } from '../state/needs';
import { more } from '../state/session_pages';
import { filters } from '../state/sessions';
import { count } from '../ui/format';
import { SessionRow } from './session_row';

type Item = { head: string; size: string } | { session: Session };
const REST_MS = 4000; // after which nobody is about to press a row

function itemsOf(all: readonly Group[]): Item[] {
  return all.flatMap(({ title, sessions }): Item[] => [
    ...(title && sessions.length ? [{ head: title, size: sizeOf(title, sessions.length) }] : []),
    ...sessions.map(session => ({ session })),
  ]);
}
const sizeOf = (title: string, n: number) => (title === 'Earlier' && more.value ? '' : count(n));

// The order in which the rows were shown, with what is in them now, and behind them what has come since.
function inOldOrder(shown: readonly Item[], next: readonly Item[]): Item[] {
  const left = new Map(next.flatMap(item => ('head' in item ? [] : [[idOf(item.session), item] as const])));
  const kept = shown.flatMap((item): Item[] => {
    if ('head' in item) return [item];
    const id = idOf(item.session),
      now = left.get(id);
    left.delete(id);
    return now ? [now] : [];
  });
  return [...kept, ...left.values()];
}

// Returns what to show, and what to call when a hand moves in the list.
function useStill(): [Item[], () => void] {
  const shown = useRef<{ items: Item[]; of: unknown }>({ items: [], of: null }),
    moved = useRef(0),
    [, draw] = useState(0);
  const next = itemsOf(groups.value),
    of = filters.value;
  const isStill = Date.now() - moved.current < REST_MS && shown.current.of === of && shown.current.items.length > 0;
  shown.current = { items: isStill ? inOldOrder(shown.current.items, next) : next, of };
  useEffect(() => {
    if (!isStill) return;
    const timer = setTimeout(() => draw(n => n + 1), Math.max(50, moved.current + REST_MS - Date.now()));
    return () => clearTimeout(timer);
  });
  return [
    shown.current.items,
    () => {
      moved.current = Date.now();
    },
  ];
}

export function SessionList({
  place,
  handle,
  order,
  onScroll,
}: {
  place: Place | null;
  handle: MutableRef<VListHandle | null>;
  order: MutableRef<(Session | null)[]>; // what stands in each row of the list; null: the head of a group
  onScroll: () => void;
}) {
  const [items, moves] = useStill();
  order.current = items.map(item => ('head' in item ? null : item.session));
  return (
    <div class="list-rows" onPointerMove={moves} onPointerDown={moves} onWheel={moves} onKeyDown={moves}>
      <VList ref={handle} onScroll={onScroll} role="list" aria-label="Sessions" data={items}>
        {(item: Item) =>
          'head' in item ? (
            <div key={`head ${item.head}`} class="group-head" role="listitem">
              <h2>
                {item.head} <span class="soft num">{item.size}</span>
              </h2>
            </div>
          ) : (
            <SessionRow
              key={idOf(item.session)}
              session={item.session}
              open={!!place && idOf(place) === idOf(item.session)}
            />
          )
        }
      </VList>
    </div>
  );
}
