// Hooks: what is read from the daemon and kept true by its events; keys; the window; what is typed, a moment later.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ask, Refusal, type LiveEvent } from '../api/client';
import { listen, resync, restored } from '../live/hub';
import { singleKeys } from '../state/single_keys';

const SECOND_KEY_MS = 1500;

export interface Asked<T> {
  data: T | null;
  error: unknown;
  loading: boolean;
  again: () => void;
}

// Reads `path` (null: nothing), again when `touches` says so of an event, when a gap was told, and when `again` is called.
// The old answer stays until the new one is there. Several events at once cause one request. An event during a request
// causes one more request after its answer, so that a steady flow of events cannot keep answers away.
export function useAsk<T>(path: string | null, touches?: (event: LiveEvent) => boolean): Asked<T> {
  const [state, setState] = useState<{ path: string | null; data: T | null; error: unknown }>({
    path: null,
    data: null,
    error: null,
  });
  const [turn, setTurn] = useState(0);
  const asked = useRef(touches);
  asked.current = touches;
  const reading = useRef({ isBusy: false, isOld: false });
  const again = useCallback(() => {
    if (reading.current.isBusy) reading.current.isOld = true;
    else setTurn(n => n + 1);
  }, []);
  useEffect(() => {
    if (!path) return;
    const stop = new AbortController(),
      mine = { isBusy: true, isOld: false };
    reading.current = mine;
    const done = () => {
      mine.isBusy = false;
      if (mine.isOld) setTurn(n => n + 1);
    };
    ask<T>(path, { signal: stop.signal }).then(
      data => {
        if (stop.signal.aborted) return;
        setState({ path, data, error: null });
        done();
      },
      error => {
        if (stop.signal.aborted) return;
        setState(old => ({
          path,
          data: error instanceof Refusal && error.status === 0 && old.path === path ? old.data : null,
          error,
        }));
        done();
      },
    );
    return () => {
      mine.isBusy = false;
      stop.abort();
    };
  }, [path, turn, resync.value]);
  const unanswered = useRef(false);
  unanswered.current = state.error instanceof Refusal && state.error.status === 0;
  useEffect(() => {
    if (unanswered.current) again();
  }, [restored.value]);
  useEffect(() => {
    if (!path) return;
    let waiting: ReturnType<typeof setTimeout> | 0 = 0;
    const end = listen(events => {
      if (!waiting && asked.current && events.some(asked.current))
        waiting = setTimeout(() => {
          waiting = 0;
          again();
        }, 120);
    });
    return () => {
      end();
      clearTimeout(waiting || undefined);
    };
  }, [path]);
  const here = state.path === path;
  return { data: here ? state.data : null, error: here ? state.error : null, loading: !!path && !here, again };
}

// Binds keys to actions; "g w" is w after g, "Mod+k" is k with Command or Ctrl. They rest while one types or a dialog is open,
// but for those with Mod. An action that returns false leaves the key to the browser.
export function useKeys(keys: Record<string, (event: KeyboardEvent) => void | false>) {
  const latest = useRef(keys);
  latest.current = keys;
  useLayoutEffect(() => {
    // Not later: a key that follows the drawing at once would be lost.
    let first = '',
      until = 0; // of a key that waits for a second one
    const run = (name: string, event: KeyboardEvent) => {
      const act = latest.current[name];
      if (act && act(event) !== false) event.preventDefault();
      return !!act;
    };
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement,
        { key } = event;
      if (event.defaultPrevented || event.isComposing || event.altKey) return;
      if (event.ctrlKey || event.metaKey) {
        if (!event.shiftKey) run(`Mod+${key}`, event);
        return;
      }
      if (document.querySelector('dialog[open]')) return;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) {
        // The first Escape leaves the field and keeps what was typed; the next one is a key of the view.
        if (key === 'Escape') target.blur();
        return;
      }
      if (/^(BUTTON|SUMMARY|A)$/.test(target.tagName) && (key === 'Enter' || (key === ' ' && target.tagName !== 'A')))
        return; // it presses them
      if (key.length === 1 && key !== ' ' && !singleKeys.value) return;
      const before = Date.now() < until ? first : '';
      until = 0;
      if (before && run(`${before} ${key}`, event)) return;
      if (run(key, event) || !Object.keys(latest.current).some(name => name.startsWith(`${key} `))) return;
      first = key;
      until = Date.now() + SECOND_KEY_MS;
    };
    addEventListener('keydown', press);
    return () => removeEventListener('keydown', press);
  }, []);
}

// Returns whether the window fits a media query.
export function useMedia(query: string): boolean {
  const [fits, setFits] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query),
      look = () => setFits(media.matches);
    look();
    media.addEventListener('change', look);
    return () => media.removeEventListener('change', look);
  }, [query]);
  return fits;
}

export function useLater<T>(value: T, ms: number): T {
  const [later, setLater] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLater(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return later;
}

// Rises every `ms` while the page is seen.
export function useTick(ms: number): number {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setTick(n => n + 1);
    }, ms);
    return () => clearInterval(timer);
  }, [ms]);
  return tick;
}
