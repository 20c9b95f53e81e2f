// What an operator does by hand: a checkpoint, the doctor, and what the limits of session.maintenance reach.
import { useState } from 'preact/hooks';
import { ask } from '../../api/client';
import { sessionHref } from '../../state/route';
import { Badge, Field } from '../../ui/basics';
import { confirm } from '../../ui/dialog';
import { bytes, count, moment } from '../../ui/format';
import { doing } from '../../ui/toast';
import { Doctor } from './doctor';

interface Taken {
  count: number;
  data: {
    agent: string;
    key: string | null;
    sessionId: string;
    reason: string;
    lastInteractionAt: number;
    bytes: number;
  }[];
  kept: { agent: string; key: string; because: string }[];
}
function Prune() {
  const [days, setDays] = useState('90'),
    [found, setFound] = useState<Taken | null>(null);
  const run = (dryRun: boolean) =>
    ask<Taken>('/v1/admin/maintenance', {
      method: 'POST',
      body: { dryRun, ...(Number(days) > 0 && { olderThanMs: Number(days) * 86_400_000 }) },
    });
  const look = () => doing('', async () => setFound(await run(true)));
  const take = async () => {
    if (
      found &&
      (await confirm(
        'Take them out',
        <ul>
          <li>{count(found.count)} sessions or archives are taken out.</li>
          <li>Sessions are archived; archives past their time are destroyed.</li>
        </ul>,
        'Take them',
        true,
      ))
    )
      await doing('Done', async () => setFound(await run(false)));
  };
  return (
    <section class="card" aria-label="Old sessions">
      <header class="ends">
        <h2>Old sessions</h2>
        <span class="spacer" />
        <Field label="Untouched for days">
          <input
            type="number"
            min="1"
            value={days}
            onInput={event => {
              setDays(event.currentTarget.value);
              setFound(null);
            }}
          />
        </Field>
        <button type="button" onClick={() => void look()}>
          Look
        </button>
      </header>
      {found && (
        <div aria-live="polite">
          <p>
            {found.count
              ? `${count(found.count)} would go, ${bytes(found.data.reduce((total, one) => total + one.bytes, 0))}:`
              : 'Nothing would go.'}
          </p>
          <ul class="lines">
            {found.data.slice(0, 50).map(one => (
              <li key={one.sessionId}>
                <Badge>{one.reason}</Badge>{' '}
                {one.key ? <a href={sessionHref({ agent: one.agent, key: one.key })}>{one.key}</a> : one.sessionId}{' '}
                <span class="soft">{moment(one.lastInteractionAt)}</span>
              </li>
            ))}
          </ul>
          {found.count > 0 && (
            <footer class="form-foot">
              <button type="button" class="danger" onClick={() => void take()}>
                Take them out…
              </button>
            </footer>
          )}
        </div>
      )}
    </section>
  );
}

export const writeFiles = () =>
  doing('The files hold the journal now', () => ask('/v1/admin/checkpoint', { method: 'POST', body: {} }));

export function Maintenance() {
  return (
    <div class="cards">
      <section class="card" aria-label="Checkpoint">
        <header>
          <h2>Checkpoint</h2>
          <span class="spacer" />
          <button type="button" onClick={() => void writeFiles()}>
            Write one now
          </button>
        </header>
        <p class="soft">
          Writes what is in the journal into sessions.json and the transcripts now, instead of in a moment.
        </p>
      </section>
      <Doctor />
      <Prune />
    </div>
  );
}
