// An event as a line of the stream.
import type { LiveEvent } from '../../api/client';
import { clockExact, moment, text } from '../../ui/format';

export type Row = LiveEvent & { n: number };

// Every word must occur; a word behind a minus must not.
export function fits(event: LiveEvent, filter: string): boolean {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const all =
    `${event.type} ${event.agent ?? ''} ${event.key ?? ''} ${event.channel ?? ''} ${event.actor ?? ''} ${text((event.data as { runId?: unknown }).runId)}`.toLowerCase();
  return words.every(word =>
    word.startsWith('-') && word.length > 1 ? !all.includes(word.slice(1)) : all.includes(word),
  );
}

export function EventRow({ event, onOpen }: { event: Row; onOpen: () => void }) {
  const [family] = event.type.split('.');
  return (
    <button type="button" class="event" onClick={onOpen}>
      <time class="soft num" title={moment(event.time)}>
        {clockExact(event.time)}
      </time>
      <span class="num soft seq">{event.seq ?? '–'}</span>
      <span class="type" data-family={family}>
        {event.type}
      </span>
      <span class="cut mono soft">{event.key ?? event.agent ?? ''}</span>
    </button>
  );
}
