// The list of a conversation: only what is near the window is in the page. It stays at the end while one is there, and
// keeps its place when older messages come in above.
import { useComputed } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { VList, type VListHandle } from 'virtua';
import { useActions } from '../../state/actions';
import type { Conversation } from '../../state/conversation';
import { Icon } from '../../ui/icons';
import { Empty, Loading, Trouble } from '../../ui/states';
import { isInternal } from '../../state/parts';
import { itemsOf, type Item } from './items';
import { LiveRun } from './live_run';
import { RawLine } from './raw_line';
import { Row } from './row';

const SEEN_MS = 1000;

// Returns whether a person begins a turn with it.
const isTurn = (item: Item): item is Extract<Item, { kind: 'message' }> =>
  item.kind === 'message' && item.message.role === 'user' && !isInternal(item.message);

// Focuses what is drawn soon, when the list has come there.
function focusSoon(selector: string, tries = 10) {
  requestAnimationFrame(() => {
    const found = document.querySelector<HTMLElement>(selector);
    if (found) found.focus({ preventScroll: true });
    else if (tries) focusSoon(selector, tries - 1);
  });
}

export function Thread({ conversation, at }: { conversation: Conversation; at: number | null }) {
  const list = useRef<VListHandle>(null),
    around = useRef<HTMLDivElement>(null),
    follows = useRef(true),
    moved = useRef(0);
  const [raw, setRaw] = useState<{ seq: number; id: string } | null>(null),
    [away, setAway] = useState(false);
  const items = useComputed(() => itemsOf(conversation.messages.value, conversation.approvals.value)).value;
  const loading = conversation.loading.value,
    error = conversation.error.value,
    run = conversation.running.value;
  const end = () => list.current?.scrollToIndex(items.length + 1, { align: 'end' });

  useEffect(() => {
    follows.current = at === null;
    conversation.following = follows.current;
    setAway(at !== null);
  }, [conversation, at]);
  useLayoutEffect(() => {
    if (follows.current && !conversation.prepended.value) end();
  }, [items, run, loading]);
  // What is at the end of the window for a second has been seen.
  const newest = conversation.messages.value.at(-1)?.seq ?? 0;
  useEffect(() => {
    const look = () =>
      setTimeout(() => {
        if (conversation.following && document.hasFocus()) conversation.look(newest);
      }, SEEN_MS);
    look();
    addEventListener('focus', look);
    return () => removeEventListener('focus', look);
  }, [conversation, newest, away]);
  // Images that load, an approval that comes, rows that are measured: while one is at the end, one stays there.
  useEffect(() => {
    const inner = around.current?.querySelector('.thread-list > *');
    if (!inner) return;
    const watch = new ResizeObserver(() => {
      if (follows.current) list.current?.scrollTo(list.current.scrollSize);
    });
    watch.observe(inner);
    return () => watch.disconnect();
  }, [loading, conversation, items.length > 0]);
  useEffect(() => {
    if (at === null || loading) return;
    let gone = false;
    void conversation.reach(at).then(found => {
      if (gone || !found) return;
      const index = itemsOf(conversation.messages.value, conversation.approvals.peek()).findIndex(
        item => 'message' in item && item.message.seq >= at,
      );
      requestAnimationFrame(() => {
        list.current?.scrollToIndex(Math.max(0, index) + 1, { align: 'center' });
        requestAnimationFrame(() => atEnd());
      });
    });
    return () => {
      gone = true;
    };
  }, [conversation, at, loading]);

  const byHand = () => {
    moved.current = Date.now();
  };
  // Follows what comes, when the end is in the window.
  const atEnd = () => {
    const handle = list.current;
    if (!handle) return;
    // Only a person's scrolling leaves the end: what grows below, and rows that are measured, do not.
    if (handle.scrollSize - handle.scrollOffset - handle.viewportSize < 80) follows.current = true;
    else if (Date.now() - moved.current < 600) follows.current = false;
    setAway(!follows.current);
    conversation.following = follows.current;
  };
  const scrolled = (offset: number) => {
    atEnd();
    if (offset < 600 && !loading) void conversation.readOlder();
  };
  // The message that has the focus, by its seq.
  const focused = () => Number(document.activeElement?.closest<HTMLElement>('.thread [data-seq]')?.dataset.seq ?? NaN);
  const turn = (by: number) => () => {
    const handle = list.current,
      now = focused();
    if (!handle) return;
    const turns = items.flatMap((item, index) => (isTurn(item) ? [{ seq: item.message.seq, index }] : []));
    const top = handle.findItemIndex(handle.scrollOffset) - 1;
    const passed = (one: (typeof turns)[number]) => (now >= 0 ? one.seq - now : one.index - top) * by > 0;
    const next = by > 0 ? turns.find(passed) : turns.findLast(passed);
    if (!next) return;
    byHand();
    follows.current = conversation.following = false;
    handle.scrollToIndex(next.index + 1, { align: 'start' });
    focusSoon(`.thread [data-seq="${next.seq}"]`);
  };
  const showRaw = () => {
    const seq = focused(),
      message = conversation.messages.value.find(one => one.seq === seq);
    if (message) setRaw({ seq, id: message.id });
  };
  useActions({ turnBefore: turn(-1), turnAfter: turn(1), raw: showRaw });
  if (error && !items.length) return <Trouble error={error} again={() => void conversation.read()} />;
  if (loading) return <Loading lines={7} />;
  if (!items.length && !run)
    return (
      <Empty title="Nothing said here yet" icon="sessions">
        The first message appears as soon as it is stored.
      </Empty>
    );
  const rows = [
    <div key="older" class="older soft">
      {conversation.older.value ? 'Reading older messages…' : 'The conversation begins here.'}
    </div>,
    ...items.map(item => (
      <Row
        key={item.id}
        item={item}
        agent={conversation.place.agent}
        delivery={item.kind === 'message' ? conversation.deliveries.value.get(item.message.id) : undefined}
        marked={'message' in item && item.message.seq === at}
        onRaw={(seq, id) => setRaw({ seq, id })}
      />
    )),
    <LiveRun key="live" conversation={conversation} />,
  ];
  return (
    <div
      ref={around}
      class="thread"
      onWheel={byHand}
      onTouchMove={byHand}
      onKeyDown={byHand}
      onPointerDown={byHand}
      role="log"
      aria-label="Messages"
      aria-live="off"
    >
      <VList ref={list} shift={conversation.prepended.value} onScroll={scrolled} className="thread-list" tabIndex={0}>
        {rows}
      </VList>
      {away && (
        <button
          type="button"
          class="to-end"
          onClick={() => {
            follows.current = conversation.following = true;
            setAway(false);
            end();
          }}
        >
          <Icon name="down" size={16} />
          Newest
        </button>
      )}
      {raw && <RawLine conversation={conversation} id={raw.id} seq={raw.seq} onClose={() => setRaw(null)} />}
    </div>
  );
}
