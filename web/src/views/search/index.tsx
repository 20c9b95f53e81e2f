// Search over all messages that the token sees, the newest first. The words and what narrows them stand in the address.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { withQuery } from '../../api/client';
import { useActions } from '../../state/actions';
import { go, leaveSearch, route, setQuery } from '../../state/route';
import { Copy } from '../../ui/basics';
import { Icon } from '../../ui/icons';
import { useLater, useMedia } from '../../ui/use';
import { Context } from './context';
import { narrowedBy, SearchFilters } from './filters';
import { foundHit, foundSession } from './hits';
import { closed, useSearch } from './read';
import { placeOf, Results } from './results';

const BESIDE = '(min-width: 1200px)';

// The words in the field and in the address: what is typed comes into the address a moment later.
function useWords() {
  const q = route.value.query.get('q') ?? '',
    [typed, setTyped] = useState(q),
    later = useLater(typed, 180);
  useEffect(() => {
    if (later !== q) setQuery({ q: later || null });
  }, [later]);
  useEffect(() => {
    if (later !== q) setTyped(q); // the palette asks for other words
  }, [q]);
  return { q, typed, setTyped };
}

export function SearchView() {
  const { query } = route.value,
    { q, typed, setTyped } = useWords();
  const now = useMemo(() => Date.now(), [query.get('since')]),
    narrowed = narrowedBy(query, now),
    search = useSearch(q, narrowed);
  const field = useRef<HTMLInputElement>(null),
    beside = useMedia(BESIDE),
    [pointed, setPointed] = useState('');
  useEffect(() => {
    document.title = 'Search · sessiond';
    field.current?.focus();
  }, []);
  const all = [...search.sessions.map(session => foundSession(placeOf(session))), ...search.hits.map(foundHit)];
  const chosen = all.find(one => one.id === pointed) ?? all[search.hits.length ? search.sessions.length : 0];
  const step = (by: number) => (event?: KeyboardEvent) => {
    const next = all[Math.max(0, Math.min(all.length - 1, all.indexOf(chosen!) + by))];
    if (!next || (event?.target as Element | null)?.closest('.hit-context')) return false;
    setPointed(next.id);
    const row = document.querySelector<HTMLElement>(`[data-found="${CSS.escape(next.id)}"]`);
    if (event?.target === field.current) row?.scrollIntoView({ block: 'nearest' });
    else row?.focus();
  };
  const open = () => (chosen ? go(chosen.href) : false);
  useActions({ next: step(1), previous: step(-1), open, back: leaveSearch });
  const press = (event: KeyboardEvent) => {
    const acts: Record<string, (event: KeyboardEvent) => void | false> = {
      ArrowDown: step(1),
      ArrowUp: step(-1),
      Enter: open,
      Escape: leaveSearch,
    };
    if (!event.isComposing && acts[event.key] && acts[event.key]!(event) !== false) event.preventDefault();
  };
  const curl = () =>
    `curl -sS '${location.origin}${withQuery('/v1/search', { q: closed(q), ...narrowed }).replaceAll("'", '%27')}' -H "Authorization: Bearer $TOKEN"`;
  return (
    <section class={`search ${beside && chosen ? 'with-context' : ''}`} aria-label="Search">
      <div class="view">
        <h1 class="sr-only">Search</h1>
        <div class="search-head">
          <Icon name="search" size={18} />
          <input
            type="search"
            class="grow"
            value={typed}
            ref={field}
            dir="auto"
            placeholder={'Words that must all occur; "a phrase"'}
            aria-label="Search messages"
            onInput={event => setTyped(event.currentTarget.value)}
            onKeyDown={press}
          />
          <Copy value={curl} label="Copy as curl" />
          <button type="button" class="ghost wide-only" aria-label="Leave the search" onClick={leaveSearch}>
            <kbd>esc</kbd>
          </button>
        </div>
        <SearchFilters />
        <div class="scroll" tabIndex={0} role="region" aria-label="Results">
          <Results search={search} chosen={chosen?.id ?? ''} beside={beside} onChoose={setPointed} />
        </div>
      </div>
      {beside && chosen && <Context key={chosen.id} found={chosen} />}
    </section>
  );
}
