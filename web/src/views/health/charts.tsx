// Six charts over 15 minutes or an hour, each with its newest value in words.
import { useMemo } from 'preact/hooks';
import { count, span } from '../../ui/format';
import { Chart, type Lines } from './chart';
import type { Column, MetricsHistory } from './history';
import { amount, milliseconds, waiting } from './scale';

export const BEHIND_EVENTS = 1000;
const BEHIND_MS = 10_000,
  UNREADY_MS = 60_000; // the daemon is not ready when sessions.json is so far behind
export const WAITS_MS = 300_000;

const measured = (value: number | null | undefined, unit = '') =>
  typeof value === 'number' ? `${value < 10 ? Number(value.toFixed(1)) : count(Math.round(value))}${unit}` : 'idle';

// When a lock was waited for: each sample tells of the time since the one before it.
function waits({ at, lockWaits, everyMs }: MetricsHistory): [number, number][] {
  const bands: [number, number][] = [];
  at.forEach((time, n) => {
    if (!lockWaits[n]) return;
    const from = (time - everyMs) / 1000,
      last = bands.at(-1);
    if (last && from - last[1] < 1) last[1] = time / 1000;
    else bands.push([from, time / 1000]);
  });
  return bands;
}

function chartsOf(history: MetricsHistory, rangeMs: number): Lines[] {
  const to = history.at.at(-1) ?? Date.now(),
    first = history.at.findIndex(at => at >= to - rangeMs);
  const times = history.at.slice(first).map(at => at / 1000);
  const newest = (name: Column) => history[name].at(-1),
    told = (name: Column) => newest(name) ?? 0;
  const lines = (title: string, series: [string, Column][]) => ({
    title,
    times,
    window: [(to - rangeMs) / 1000, to / 1000] as [number, number],
    series: series.map(([name, column]) => ({ name, values: history[column].slice(first) })),
  });
  const lag = told('streamLagEvents'),
    oldest = Math.max(told('oldestRunMs'), told('oldestDeliveryMs')),
    behind = told('checkpointLagMs'),
    p99 = newest('requestP99Ms');
  return [
    {
      ...lines('Streams behind', [['worst stream', 'streamLagEvents']]),
      scale: amount,
      newest: lag ? `${count(lag)} ${lag === 1 ? 'event' : 'events'}` : 'up to date',
      tone: lag > BEHIND_EVENTS ? 'warn' : '',
    },
    {
      ...lines('fsync', [
        ['mean of a batch', 'syncMs'],
        ['99 %', 'syncP99Ms'],
      ]),
      scale: milliseconds,
      newest: measured(newest('syncMs'), ' ms'),
    },
    {
      ...lines('Requests', [
        ['p50', 'requestP50Ms'],
        ['p99', 'requestP99Ms'],
      ]),
      scale: milliseconds,
      newest: (typeof p99 === 'number' ? 'p99 ' : '') + measured(p99, ' ms'),
    },
    {
      ...lines('Commits a second', [['accepted', 'commits']]),
      scale: amount,
      newest: measured(newest('commits')),
    },
    {
      ...lines('Oldest waiting', [
        ['run', 'oldestRunMs'],
        ['delivery', 'oldestDeliveryMs'],
      ]),
      scale: waiting,
      newest: oldest ? span(oldest) : 'nothing waits',
      tone: oldest > WAITS_MS ? 'bad' : '',
    },
    {
      ...lines('sessions.json behind', [['worst agent', 'checkpointLagMs']]),
      scale: waiting,
      newest: behind ? span(behind) : 'up to date',
      tone: behind > UNREADY_MS ? 'bad' : behind > BEHIND_MS ? 'warn' : '',
      bands: waits(history).filter(([, end]) => end * 1000 > to - rangeMs),
      cause: 'waited for a lock of another program',
    },
  ];
}

export function Charts({ history, rangeMs }: { history: MetricsHistory; rangeMs: number }) {
  const charts = useMemo(() => chartsOf(history, rangeMs), [history, rangeMs]),
    measuredYet = history.at.length > 0;
  return (
    <section class="charts" aria-label="Charts">
      {charts.map(one => (
        <Chart key={one.title} {...one} newest={measuredYet ? one.newest : '–'} />
      ))}
    </section>
  );
}
