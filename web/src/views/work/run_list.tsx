// The runs of a session, the newest first; the one that runs can be stopped.
import { ask, pathOf, withQuery, type Place, type Run } from '../../api/client';
import { may } from '../../state/who';
import { Age, Badge, type Tone } from '../../ui/basics';
import { confirm } from '../../ui/dialog';
import { now, span } from '../../ui/format';
import { Empty, Loading, Trouble } from '../../ui/states';
import { doing } from '../../ui/toast';
import { useAsk } from '../../ui/use';

const RUN_TONES: Record<string, Tone> = {
  done: 'good',
  failed: 'bad',
  running: 'info',
  aborting: 'warn',
  interrupted: 'warn',
  dropped: 'warn',
  expired: 'warn',
};

export async function stopRun(place: Place, runId: string) {
  if (
    await confirm(
      'Stop the run',
      <p>
        The runner is told to stop. What it has written so far is kept as an interrupted answer. The next waiting run
        then starts.
      </p>,
      'Stop it',
      true,
    )
  )
    await doing('Told to stop', () =>
      ask(pathOf(place, '/abort'), { method: 'POST', body: { runId, reason: 'stopped from the dashboard' } }),
    );
}

function RunRow({ run, place }: { run: Run; place: Place }) {
  const open = run.status === 'running' || run.status === 'queued' || run.status === 'aborting';
  const error = run.error as { code?: string; message?: string } | undefined;
  return (
    <li class="card">
      <header>
        <Badge tone={RUN_TONES[run.status] ?? 'plain'}>{run.status}</Badge>
        <span class="mono cut">{run.runId}</span>
        <span class="spacer" />
        <Age at={run.startedAt ?? run.createdAt} />
        {open && may('abort') && run.status !== 'aborting' && (
          <button type="button" class="danger small" onClick={() => void stopRun(place, run.runId)}>
            Stop
          </button>
        )}
      </header>
      <p class="soft facts">
        <span>
          {run.steps} {run.steps === 1 ? 'step' : 'steps'}
        </span>
        {run.startedAt && <span>{span((run.endedAt ?? now.value) - run.startedAt)}</span>}
        {run.runner && <span>runner {run.runner}</span>}
        {run.model && (
          <span>
            {run.provider ? run.provider + ' / ' : ''}
            {run.model}
          </span>
        )}
        {run.attempt > 1 && <span>attempt {run.attempt}</span>}
        {run.position !== undefined && <span>waits at {run.position}</span>}
        {run.topic && <span>topic {run.topic}</span>}
      </p>
      {error && (
        <p class="notice bad">
          {error.code}
          {error.message && `: ${error.message}`}
        </p>
      )}
      {run.response && (
        <details>
          <summary>Answer</summary>
          <p class="pre">{run.response}</p>
        </details>
      )}
    </li>
  );
}

export function RunList({ place }: { place: Place }) {
  const { data, error, again } = useAsk<{ data: Run[] }>(
    withQuery(pathOf(place, '/runs'), { limit: 50 }),
    event => event.key === place.key && event.agent === place.agent && /^(run|step)\./.test(event.type),
  );
  if (error) return <Trouble error={error} again={again} />;
  if (!data) return <Loading />;
  if (!data.data.length)
    return (
      <Empty title="No runs yet" icon="work">
        A run begins when a message activates the agent, or a runner starts one.
      </Empty>
    );
  return (
    <ul class="cards scroll" tabIndex={0} aria-label="Runs">
      {data.data.map(run => (
        <RunRow key={run.runId} run={run} place={place} />
      ))}
    </ul>
  );
}
