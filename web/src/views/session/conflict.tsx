// Somebody else changed the session since it was read (412): both changes beside each other.
import type { Session } from '../../api/client';

const shown = (value: unknown) =>
  value === undefined || value === null ? '–' : typeof value === 'string' ? value : JSON.stringify(value);

export function Conflict({
  mine,
  base,
  theirs,
  onKeep,
  onDrop,
}: {
  mine: Record<string, unknown>;
  base: Session;
  theirs: Session;
  onKeep: () => void;
  onDrop: () => void;
}) {
  const names = [...new Set([...Object.keys(mine), ...Object.keys(theirs), ...Object.keys(base)])].filter(
    name =>
      !['rev', 'asOf', 'updatedAt', 'messageCount', 'entryCount'].includes(name) &&
      (name in mine || shown(base[name]) !== shown(theirs[name])),
  );
  return (
    <section class="conflict" role="alert" aria-label="Conflict">
      <p>
        <strong>The session was changed meanwhile.</strong> Nothing of yours was saved yet.
      </p>
      <div class="table-wrap" tabIndex={0} role="region" aria-label="Differences">
        <table>
          <thead>
            <tr>
              <th scope="col">Field</th>
              <th scope="col">When you began</th>
              <th scope="col">Now</th>
              <th scope="col">Yours</th>
            </tr>
          </thead>
          <tbody>
            {names.map(name => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{shown(base[name])}</td>
                <td class={shown(base[name]) !== shown(theirs[name]) ? 'changed' : ''}>{shown(theirs[name])}</td>
                <td>{name in mine ? <ins>{shown(mine[name])}</ins> : ''}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <footer class="form-foot">
        <button type="button" onClick={onDrop}>
          Take what is there now
        </button>
        <button type="button" class="primary" onClick={onKeep}>
          Save mine over it
        </button>
      </footer>
    </section>
  );
}
