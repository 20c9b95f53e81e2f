// The sessions, those that need somebody first, and beside them the one that is open.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { VListHandle } from 'virtua';
import { idOf, type Session } from '../api/client';
import { useActions } from '../state/actions';
import { go, openSession, sessionHref } from '../state/route';
import { more, read, reading, trouble } from '../state/session_pages';
import { markUnread } from '../state/seen';
import { filters, list, NO_FILTERS, rowWith } from '../state/sessions';
import { text } from '../ui/format';
import { Empty, Loading, Trouble } from '../ui/states';
import { ConversationView } from './conversation';
import { Filters } from './filters';
import { SessionList } from './session_list';
import { Start } from './start';

function NoSessions() {
  const filtered = JSON.stringify(filters.value) !== JSON.stringify(NO_FILTERS);
  return filtered ? (
    <Empty title="No session fits" icon="search">
      <button
        type="button"
        onClick={() => {
          filters.value = NO_FILTERS;
          void read();
        }}
      >
        Show all
      </button>
    </Empty>
  ) : (
    <Empty title="No sessions yet" icon="sessions">
      A session begins with its first message, which a chat bridge posts:
      <code class="block">curl {location.origin}/v1/inbound --json '…'</code>A runner asks for what is to be answered:
      <code class="block">curl -X POST {location.origin}/v1/agents/main/runs/claim</code>
    </Empty>
  );
}

export function Overview() {
  const rows = list.value,
    place = openSession.value,
    handle = useRef<VListHandle>(null),
    order = useRef<(Session | null)[]>([]);
  const [focus, setFocus] = useState('');
  useEffect(() => {
    if (!place) document.title = 'Sessions · sessiond';
  }, [place]);
  const step = (by: number) => {
    const shown = order.current.filter(s => s !== null);
    const at = shown.findIndex(s => idOf(s) === (focus || (place ? idOf(place) : '')));
    const next = shown[Math.max(0, Math.min(shown.length - 1, at + by))];
    if (!next) return;
    setFocus(idOf(next));
    handle.current?.scrollToIndex(order.current.indexOf(next), { align: 'nearest' });
    if (place) go(sessionHref({ agent: text(next.agent), key: text(next.key) }), true);
    requestAnimationFrame(() => document.querySelector<HTMLElement>(`[data-row="${CSS.escape(idOf(next))}"]`)?.focus());
  };
  // Arrows scroll what has the focus elsewhere: a conversation, a form.
  const stepBy = (by: number) => (event?: KeyboardEvent) =>
    event?.key.startsWith('Arrow') && (event.target as Element).closest('.conversation') ? false : step(by);
  const pointed = order.current.find(s => s && idOf(s) === focus);
  useActions({
    next: stepBy(1),
    previous: stepBy(-1),
    unread: !place && !!pointed && (() => markUnread(rowWith(idOf(pointed)) ?? pointed)),
  });
  // Back at the list, the session that one comes from has the focus.
  const left = useRef(place);
  useEffect(() => {
    const from = left.current;
    left.current = place;
    if (!place && from) document.querySelector<HTMLElement>(`[data-row="${CSS.escape(idOf(from))}"]`)?.focus();
  }, [place && idOf(place)]);
  const scrolled = () => {
    if (
      more.value &&
      handle.current &&
      handle.current.scrollOffset + handle.current.viewportSize > handle.current.scrollSize - 1500
    )
      void read(true);
  };
  return (
    <div class="overview">
      <section class="list" aria-label="Sessions">
        {!place && <h1 class="sr-only">Sessions</h1>}
        <Filters />
        <div id="sessions" class="list-body" aria-busy={reading.value}>
          {trouble.value && !rows.length ? (
            <Trouble error={trouble.value} again={() => void read()} />
          ) : !rows.length ? (
            reading.value || more.value ? (
              <Loading lines={8} />
            ) : (
              <NoSessions />
            )
          ) : (
            <>
              {trouble.value !== null && <Trouble error={trouble.value} again={() => void read()} />}
              <SessionList place={place} handle={handle} order={order} onScroll={scrolled} />
            </>
          )}
        </div>
      </section>
      {place ? (
        <ConversationView key={idOf(place)} place={place} />
      ) : (
        <section class="conversation none" aria-label="Conversation">
          <Start />
        </section>
      )}
    </div>
  );
}
