// How the daemon is: readiness in sentences, the last minutes as charts, locks and streams.
import { useEffect } from 'preact/hooks';
import { route, setQuery } from '../../state/route';
import { may, seesAll } from '../../state/who';
import { Head } from '../../ui/basics';
import { clock, now } from '../../ui/format';
import { Loading, Trouble } from '../../ui/states';
import { useAsk, useTick, type Asked } from '../../ui/use';
import { Charts } from './charts';
import { FileButtons } from './files';
import { useHistory, type MetricsHistory } from './history';
import { Locks } from './locks';
import { Facts, Readiness } from './readiness';
import type { Ready } from './remarks';
import { Streams } from './streams';

const RANGES: Record<string, [name: string, ms: number]> = { '': ['15 min', 900_000], '1h': ['1 h', 3_600_000] };

function Ranges({ range }: { range: string }) {
  return (
    <div class="segments" role="group" aria-label="Time that the charts show">
      {Object.entries(RANGES).map(([id, [name]]) => (
        <button key={id} type="button" aria-pressed={range === id} onClick={() => setQuery({ range: id })}>
          {name}
        </button>
      ))}
    </div>
  );
}

const Reach = ({ history, rangeMs }: { history: MetricsHistory; rangeMs: number }) => (
  <>
    {history.startedAt > now.value - rangeMs && `Since ${clock(history.startedAt)}, when the daemon started. `}
    For more than an hour, let Prometheus read <code>/metrics</code>.
  </>
);

function Maintained({ tick }: { tick: number }) {
  return (
    <div class="health-tables">
      <Locks tick={tick} />
      <Streams tick={tick} />
    </div>
  );
}

function State({ ready, history }: { ready: Asked<Ready>; history: MetricsHistory | null }) {
  // 503 has the same body, with the reasons.
  const body = ready.data ?? (ready.error as { body?: Ready } | null)?.body;
  if (body?.reasons) return <Readiness ready={body} history={history} />;
  return ready.error ? <Trouble error={ready.error} again={ready.again} /> : <Loading lines={2} />;
}

// For those who may read metrics: charts, the facts and what /readyz does not know.
function Measured({ ready, range, tick }: { ready: Asked<Ready>; range: string; tick: number }) {
  const { history, error, again } = useHistory(),
    version = useAsk<{ version: string }>('/version').data?.version;
  const rangeMs = RANGES[range]![1],
    maintains = may('maintenance') && seesAll();
  return (
    <>
      <Head title="Health" note={history && <Reach history={history} rangeMs={rangeMs} />}>
        <Ranges range={range} />
        {maintains && <FileButtons />}
      </Head>
      <div class="scroll pad health" tabIndex={0} role="region" aria-label="Readiness, charts, locks and streams">
        <div class="summary">
          <State ready={ready} history={history} />
          {history && <Facts history={history} version={version} />}
        </div>
        {history ? (
          <Charts history={history} rangeMs={rangeMs} />
        ) : error ? (
          <Trouble error={error} again={again} />
        ) : (
          <Loading />
        )}
        {maintains && <Maintained tick={tick} />}
      </div>
    </>
  );
}

export function HealthView() {
  const tick = useTick(5000),
    ready = useAsk<Ready>('/readyz');
  useEffect(() => {
    document.title = 'Health · sessiond';
  }, []);
  useEffect(() => {
    if (tick) ready.again();
  }, [tick]);
  const range = route.value.query.get('range') === '1h' ? '1h' : '';
  return (
    <section class="view" aria-label="Health">
      {may('metrics') && seesAll() ? (
        <Measured ready={ready} range={range} tick={tick} />
      ) : (
        <>
          <Head title="Health" />
          <div class="scroll pad health" tabIndex={0} role="region" aria-label="Readiness">
            <State ready={ready} history={null} />
          </div>
        </>
      )}
    </section>
  );
}
