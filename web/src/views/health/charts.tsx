// Requests, latency, fsync, streams and checkpoints over the last ten minutes, read from /metrics every two seconds.
import { useEffect, useRef, useState } from 'preact/hooks';
import { bytes, count, short, span } from '../../ui/format';
import { Chart } from './chart';
import { parse, quantile, sum, type Metrics } from './metrics';

const EVERY_MS = 2000,
  KEPT = 300;
const NAMES = ['requests', 'commits', 'median', 'p99', 'fsync', 'slowFsync', 'batch', 'lag', 'streams', 'checkpoint'] as const;
type Name = (typeof NAMES)[number];
interface Past {
  times: number[];
  values: Record<Name, (number | null)[]>;
}

// What happened between two readings, a second.
function between(before: Metrics, now: Metrics, seconds: number): Record<Name, number | null> {
  const rate = (name: string) => Math.max(0, (sum(now, name) - sum(before, name)) / seconds);
  const per = (total: string, of: string) => {
    const n = sum(now, of) - sum(before, of);
    return n > 0 ? (sum(now, total) - sum(before, total)) / n : null;
  };
  const ms = (value: number | null) => (value === null ? null : value * 1000);
  return {
    requests: rate('sessiond_requests_total'),
    commits: rate('sessiond_commits_total'),
    median: ms(quantile(before, now, 'sessiond_request_seconds', 0.5)),
    p99: ms(quantile(before, now, 'sessiond_request_seconds', 0.99)),
    fsync: ms(per('sessiond_journal_sync_seconds_total', 'sessiond_journal_batches_total')),
    slowFsync: ms(quantile(before, now, 'sessiond_journal_sync_seconds', 0.99)),
    batch: per('sessiond_commits_total', 'sessiond_journal_batches_total'),
    lag: sum(now, 'sessiond_stream_lag_events'),
    streams: sum(now, 'sessiond_streams'),
    checkpoint: sum(now, 'sessiond_checkpoint_lag_seconds'),
  };
}

function Tiles({ metrics }: { metrics: Metrics }) {
  const n = (name: string) => sum(metrics, name);
  const tiles: [string, string][] = [
    ['Up for', span(Date.now() - n('sessiond_start_time_seconds') * 1000)],
    ['Agents', count(n('sessiond_agents'))],
    ['Connections', count(n('sessiond_connections'))],
    ['Event streams', count(n('sessiond_streams'))],
    ['Runs active', count(n('sessiond_runs_active'))],
    ['Runs queued', count(n('sessiond_runs_queued'))],
    ['Approvals open', count(n('sessiond_approvals_open'))],
    ['Commits', short(n('sessiond_commits_total'))],
    ['Journal written', bytes(n('sessiond_journal_bytes_total'))],
  ];
  return (
    <dl class="tiles">
      {tiles.map(([name, value]) => (
        <div key={name} class="card tile">
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Charts({ read }: { read: () => Promise<string> }) {
  const [past, setPast] = useState<Past>({
    times: [],
    values: Object.fromEntries(NAMES.map(name => [name, []])) as unknown as Past['values'],
  });
  const [latest, setLatest] = useState<Metrics | null>(null),
    before = useRef<{ at: number; metrics: Metrics } | null>(null);
  useEffect(() => {
    const take = async () => {
      if (document.hidden) return;
      const metrics = parse(await read()),
        at = Date.now(),
        old = before.current;
      before.current = { at, metrics };
      setLatest(metrics);
      if (!old) return;
      const point = between(old.metrics, metrics, (at - old.at) / 1000);
      setPast(kept => ({
        times: [...kept.times, at / 1000].slice(-KEPT),
        values: Object.fromEntries(
          NAMES.map(name => [name, [...kept.values[name], point[name]].slice(-KEPT)]),
        ) as Past['values'],
      }));
    };
    const again = () => void take().catch(() => {}); // the banner says that the daemon is away
    again();
    const timer = setInterval(again, EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  const { times, values } = past,
    chart = (title: string, unit: string, series: [string, Name][]) => (
      <Chart
        title={title}
        unit={unit}
        times={times}
        series={series.map(([name, of]) => ({ name, values: values[of] }))}
      />
    );
  return (
    <>
      <div class="section-head">
        <h2>Now</h2>
      </div>
      {latest && <Tiles metrics={latest} />}
      <div class="charts">
        {chart('Traffic', '/s', [
          ['requests', 'requests'],
          ['commits', 'commits'],
        ])}
        {chart('Request latency', ' ms', [
          ['median', 'median'],
          ['99 %', 'p99'],
        ])}
        {chart('fsync of the journal', ' ms', [
          ['mean', 'fsync'],
          ['99 %', 'slowFsync'],
        ])}
        {chart('Commits a batch', '', [['mean', 'batch']])}
        {chart('Streams', '', [
          ['open', 'streams'],
          ['events behind', 'lag'],
        ])}
        {chart('Checkpoint', ' s', [['behind the journal', 'checkpoint']])}
      </div>
    </>
  );
}
