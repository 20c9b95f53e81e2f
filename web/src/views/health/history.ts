// What the daemon measured in the last hour: read once, then only what came since. It outlives the view.
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { ask, type Schemas } from '../../api/client';
import { restored } from '../../live/hub';
import { useTick } from '../../ui/use';

const KEPT_MS = 3_600_000,
  EVERY_MS = 5000;

export type MetricsHistory = Schemas['MetricsHistory'];
export type Column = Exclude<keyof MetricsHistory, 'everyMs' | 'startedAt'>;

const history = signal<MetricsHistory | null>(null);

// Both in one, without what is older than an hour. What a daemon before this one measured goes with it, and what a clock
// said that was set back since.
function joined(old: MetricsHistory | null, more: MetricsHistory): MetricsHistory {
  if (old?.startedAt !== more.startedAt || more.at[0]! <= old.at.at(-1)!) return more;
  const at = [...old.at, ...more.at],
    first = at.findIndex(one => one > at.at(-1)! - KEPT_MS);
  const columns = Object.keys(more).filter(name => Array.isArray(more[name as Column])) as Column[];
  return { ...more, ...Object.fromEntries(columns.map(name => [name, [...old[name], ...more[name]].slice(first)])) };
}

export function useHistory(): { history: MetricsHistory | null; error: unknown; again: () => void } {
  const [error, setError] = useState<unknown>(null),
    [turn, setTurn] = useState(0),
    tick = useTick(EVERY_MS);
  useEffect(() => {
    const stop = new AbortController();
    ask<MetricsHistory>('/v1/metrics/history', {
      query: { after: history.value?.n.at(-1) },
      signal: stop.signal,
    }).then(
      more => {
        if (stop.signal.aborted) return;
        const isOther = !!history.value && history.value.startedAt !== more.startedAt;
        history.value = joined(history.value, more);
        if (isOther) setTurn(n => n + 1); // its samples are numbered anew
        setError(null);
      },
      refusal => {
        if (!stop.signal.aborted) setError(refusal);
      },
    );
    return () => stop.abort();
  }, [tick, turn, restored.value]);
  return { history: history.value, error, again: () => setTurn(n => n + 1) };
}
