// The list of a conversation: only what is near the window is in the page. It stays at the end while one is there, and
// keeps its place when older messages come in above.
import { useComputed } from '@preact/signals';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { VList, type VListHandle } from 'virtua';
import type { Conversation } from '../../state/conversation';
import { Icon } from '../../ui/icons';
import { Empty, Loading, Trouble } from '../../ui/states';
import { itemsOf, type Item } from './items';
import { LiveRun } from './live_run';
import { Mark } from './mark';
import { MessageView } from './message';
import { RawLine } from './raw_line';
import { LooseResult } from './tool_call';

const SEEN_MS = 1000;

function Row({
  item,
  conversation,
  onRaw,
  marked,
}: {
  item: Item;
  conversation: Conversation;
  onRaw: (seq: number, id: string) => void;
  marked: number;
}) {
  if (item.kind === 'day')
    return (
      <div class="day" role="separator">
        <span>{item.label}</span>
      </div>
    );
  if (item.kind === 'mark') return <Mark message={item.message} />;
  if (item.kind === 'result')
    return (
      <div class="message tool cont">
        <div class="body">
          {item.results.map((result, n) => (
            <LooseResult key={n} result={result} />
          ))}
        </div>
      </div>
    );
  return (
    <MessageView
      item={item}
      agent={conversation.place.agent}
      delivery={conversation.deliveries.value.get(item.message.id)}
      onRaw={onRaw}
      marked={marked === item.message.seq}
    />
  );
}

export function Thread({ conversation, at }: { conversation: Conversation; at: number | null }) {
  const list = useRef<VListHandle>(null),
    around = useRef<HTMLDivElement>(null),
    follows = useRef(true),
    moved = useRef(0);
  const [raw, setRaw] = useState<{ seq: number; id: string } | null>(null),
    [away, setAway] = useState(false);
  const items = useComputed(() => itemsOf(conversation.messages.value)).value;
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
      const index = itemsOf(conversation.messages.value).findIndex(
        item => item.kind !== 'day' && item.message.seq >= at,
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
        conversation={conversation}
        marked={at ?? -1}
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
