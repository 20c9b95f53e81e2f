// Reset, archive, restore, fork, delete: each says first what it will do.
import { useState } from 'preact/hooks';
import { ask, pathOf, post, type Place, type Session } from '../../api/client';
import { go, hrefOf, sessionHref } from '../../state/route';
import { confirm } from '../../ui/dialog';
import { count, text } from '../../ui/format';
import { doing } from '../../ui/toast';

export function Actions({ place, session, again }: { place: Place; session: Session; again: () => void }) {
  const [purge, setPurge] = useState(false);
  const many = `${count(Number(session.messageCount) || 0)} messages`,
    stops = session.activeRun ? <li>The active run is stopped; its answer so far is kept.</li> : null;
  const match = { 'If-Match': `"r${String(session.rev)}"` };
  const act = async (
    title: string,
    says: preact.JSX.Element,
    button: string,
    done: string,
    call: () => Promise<unknown>,
    danger = false,
  ) => {
    if ((await confirm(title, says, button, danger)) && (await doing(done, call))) again();
  };
  const reset = () =>
    act(
      'Reset the session',
      <ul>
        <li>{many} move to an archive, which stays readable under History.</li>
        <li>The session gets a new id and begins empty. Its name, model and settings stay.</li>
        {stops}
      </ul>,
      'Reset',
      'Reset',
      () => post(pathOf(place, '/reset'), {}, match),
    );
  const clear = () =>
    act(
      'Clear the session',
      <ul>
        <li>{many} move to an archive.</li>
        <li>The session keeps its id; counters become 0.</li>
        {stops}
      </ul>,
      'Clear',
      'Cleared',
      () => post(pathOf(place, '/clear'), {}, match),
    );
  const archive = () =>
    act(
      'Archive the session',
      <ul>
        <li>It is closed: new messages are refused until it is opened again.</li>
        <li>Nothing is deleted.</li>
        {stops}
      </ul>,
      'Archive',
      'Archived',
      () => post(pathOf(place, '/archive'), {}, match),
    );
  const open = () =>
    act('Open the session again', <p>It takes messages again.</p>, 'Open', 'Opened', () =>
      post(pathOf(place, '/unarchive'), {}, match),
    );
  const fork = async () => {
    if (
      !(await confirm(
        'Fork the session',
        <ul>
          <li>A new session begins with a copy of {many} up to now.</li>
          <li>This one stays as it is. Chat and route are not copied.</li>
        </ul>,
        'Fork',
      ))
    )
      return;
    await doing('Forked', async () => {
      const made = await post<Session>(pathOf(place, '/fork'));
      go(sessionHref({ agent: place.agent, key: text(made.key) }));
    });
  };
  const remove = async () => {
    const says = purge ? (
      <ul>
        <li>
          <strong>{many} and all archives of the session are destroyed. Nothing brings them back.</strong>
        </li>
        {stops}
      </ul>
    ) : (
      <ul>
        <li>The session goes; its {many} stay in an archive, from which History can restore it.</li>
        {stops}
      </ul>
    );
    if (
      (await confirm(purge ? 'Destroy the session' : 'Delete the session', says, purge ? 'Destroy' : 'Delete', true)) &&
      (await doing(purge ? 'Destroyed' : 'Deleted', () =>
        ask(pathOf(place), { method: 'DELETE', query: purge ? { purge: true } : {}, headers: match }),
      ))
    )
      go(purge ? hrefOf('sessions') : sessionHref(place, 'history'));
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
