// How the daemon is: readiness, the last minutes as charts, streams and locks.
import { useEffect } from 'preact/hooks';
import type { Schemas } from '../../api/client';
import { askRaw } from '../../api/client';
import { may, seesAll } from '../../state/who';
import { Badge, Head } from '../../ui/basics';
import { Loading } from '../../ui/states';
import { useAsk, useTick } from '../../ui/use';
import { Charts } from './charts';
import { Locks } from './locks';
import { Streams } from './streams';

type Ready = Schemas['Ready'];

// Each thing that is not as it should be, in words.
function complaints(ready: Ready): string[] {
  const lists = ['reasons', 'degraded', 'damage', 'repairs'] as const;
  const all = lists.flatMap(name => (ready[name] ?? []).map(one => `${name === 'reasons' ? '' : name + ': '}${one}`));
  if (ready.failedDeliveries) all.push(`${ready.failedDeliveries} deliveries failed and wait under Work`);
  if (ready.idempotencyTruncated) all.push('kept answers went before their time for want of space');
  for (const agent of ready.unindexed ?? [])
    all.push(`agent ${agent} has transcripts and no sessions.json: POST /v1/admin/reindex`);
  if (ready.unwatched) all.push(`changes of other programs are seen late: ${ready.unwatched}`);
  return all;
}

function Readiness({ ready }: { ready: Ready }) {
  const wrong = complaints(ready),
    check = ready.journalCheck;
  return (
    <section class="card" aria-label="Readiness">
      <p>
        <Badge tone={ready.status === 'ready' ? (wrong.length ? 'warn' : 'good') : 'bad'}>{ready.status}</Badge>{' '}
        <span class="soft">
          {wrong.length ? 'with these remarks' : 'nothing to complain of'}; checkpoint {ready.checkpointLagMs} ms behind
          the journal
        </span>
      </p>
      {wrong.length > 0 && (
        <ul class="lines">
          {wrong.map(one => (
            <li key={one} class="notice warn">
              {one}
            </li>
          ))}
        </ul>
      )}
      {!!ready.loading?.length && <p class="soft">Reading: {ready.loading.join(', ')}</p>}
      {check && (
        <p class="soft">
          The journal is being checked: {check.segments} of {check.ofSegments} segments
        </p>
      )}
    </section>
  );
}

export function HealthView() {
  const tick = useTick(5000);
  const ready = useAsk<Ready>('/readyz'),
    version = useAsk<{ version: string }>('/version');
  useEffect(() => {
    document.title = 'Health · sessiond';
  }, []);
  useEffect(() => {
    if (tick) ready.again();
  }, [tick]);
  // 503 has the same body, with the reasons.
  const body = ready.data ?? (ready.error as { body?: Ready } | null)?.body ?? null;
  return (
    <section class="view" aria-label="Health">
      <Head title="Health">{version.data && <span class="soft">sessiond {version.data.version}</span>}</Head>
      <div class="scroll pad" tabIndex={0} role="region" aria-label="Readiness, charts, streams and locks">
        {body?.reasons ? (
          <Readiness ready={body} />
        ) : ready.error ? (
          <p class="notice bad">The daemon does not answer.</p>
        ) : (
          <Loading lines={2} />
        )}
        {may('metrics') && seesAll() ? (
          <Charts read={() => askRaw('/metrics').then(reply => reply.text())} />
        ) : (
          <p class="soft">Charts are for tokens that may read metrics of everything.</p>
        )}
        {may('maintenance') && seesAll() && (
          <>
            <h2>Event streams</h2>
            <Streams tick={tick} />
            <h2>Locks</h2>
            <Locks tick={tick} />
          </>
        )}
      </div>
    </section>
  );
}
