// Reset, archive, restore, fork, delete: each says first what it will do.
import { useState } from 'preact/hooks';
import { ask, pathOf, post, type Place, type Session } from '../../api/client';
import { go, hrefOf, sessionHref } from '../../state/route';
import { confirm } from '../../ui/dialog';
import { text } from '../../ui/format';
import { doing } from '../../ui/toast';
import { act, manyOf, type Action } from './act';

export function Actions({ place, session, again }: { place: Place; session: Session; again: () => void }) {
  const [purge, setPurge] = useState(false);
  const then = (action: Action) => async () => {
    if (await act(place, session, action, again)) again();
  };
  const reset = then({
    title: 'Reset the session',
    says: shown => (
      <>
        <li>{manyOf(shown)} move to an archive, which stays readable under History.</li>
        <li>The session gets a new id and begins empty. Its name, model and settings stay.</li>
      </>
    ),
    button: 'Reset',
    done: 'Reset',
    call: match => post(pathOf(place, '/reset'), {}, match),
  });
  const clear = then({
    title: 'Clear the session',
    says: shown => (
      <>
        <li>{manyOf(shown)} move to an archive.</li>
        <li>The session keeps its id; counters become 0.</li>
      </>
    ),
    button: 'Clear',
    done: 'Cleared',
    call: match => post(pathOf(place, '/clear'), {}, match),
  });
  const archive = then({
    title: 'Archive the session',
    says: () => (
      <>
        <li>It is closed: new messages are refused until it is opened again.</li>
        <li>Nothing is deleted.</li>
      </>
    ),
    button: 'Archive',
    done: 'Archived',
    call: match => post(pathOf(place, '/archive'), {}, match),
  });
  const open = then({
    title: 'Open the session again',
    says: () => <li>It takes messages again.</li>,
    button: 'Open',
    done: 'Opened',
    call: match => post(pathOf(place, '/unarchive'), {}, match),
  });
  const remove = async () => {
    const done = await act(place, session, {
      title: purge ? 'Destroy the session' : 'Delete the session',
      says: shown =>
        purge ? (
          <li>
            <strong>{manyOf(shown)} and all archives of the session are destroyed. Nothing brings them back.</strong>
          </li>
        ) : (
          <li>The session goes; its {manyOf(shown)} stay in an archive, from which History can restore it.</li>
        ),
      button: purge ? 'Destroy' : 'Delete',
      done: purge ? 'Destroyed' : 'Deleted',
      call: headers => ask(pathOf(place), { method: 'DELETE', query: purge ? { purge: true } : {}, headers }),
      danger: true,
    }, again);
    if (done) go(purge ? hrefOf('sessions') : sessionHref(place, 'history'));
  };
  const fork = async () => {
    const says = (
      <ul>
        <li>A new session begins with a copy of {manyOf(session)} up to now.</li>
        <li>This one stays as it is. Chat and route are not copied.</li>
      </ul>
    );
    if (!(await confirm('Fork the session', says, 'Fork'))) return;
    await doing('Forked', async () => {
      const made = await post<Session>(pathOf(place, '/fork'));
      go(sessionHref({ agent: place.agent, key: text(made.key) }));
    });
  };
  return (
    <div class="action-list">
      <button type="button" onClick={() => void reset()}>
        Reset…
      </button>
      <button type="button" onClick={() => void clear()}>
        Clear…
      </button>
      {session.archivedAt ? (
        <button type="button" onClick={() => void open()}>
          Open again…
        </button>
      ) : (
        <button type="button" onClick={() => void archive()}>
          Archive…
        </button>
      )}
      <button type="button" onClick={() => void fork()}>
        Fork…
      </button>
      <span class="spacer" />
      <label class="check">
        <input type="checkbox" checked={purge} onChange={event => setPurge(event.currentTarget.checked)} /> with its
        transcripts
      </label>
      <button type="button" class="danger" onClick={() => void remove()}>
        Delete…
      </button>
    </div>
  );
}
