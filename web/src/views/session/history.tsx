// Every id that the key has had, its archives, readable, and restoring one.
import { pathOf, post, type Place } from '../../api/client';
import { go, sessionHref } from '../../state/route';
import { may } from '../../state/who';
import { Age, Badge } from '../../ui/basics';
import { confirm } from '../../ui/dialog';
import { Empty, Loading, Trouble } from '../../ui/states';
import { doing } from '../../ui/toast';
import { useAsk } from '../../ui/use';

interface Archive {
  sessionId: string;
  archivedAs: string[];
  reason?: string;
  time?: number;
  at?: number;
  endedAt?: number;
  current?: boolean;
}

export function History({ place }: { place: Place }) {
  const history = useAsk<{ data: Archive[] }>(
    pathOf(place, '/history'),
    event => event.key === place.key && event.type.startsWith('session.'),
  );
  const archives = useAsk<{ data: Archive[] }>(
    pathOf(place, '/archives'),
    event => event.key === place.key && event.type.startsWith('session.'),
  );
  const restore = async (archive: Archive) => {
    if (
      (await confirm(
        'Restore the session',
        <ul>
          <li>The archived transcript becomes the session's again, byte for byte, with its settings.</li>
          <li>It works only while the key has no session: delete or rename what is there first.</li>
        </ul>,
        'Restore',
      )) &&
      (await doing('Restored', () => post(pathOf(place, '/restore'), { sessionId: archive.sessionId })))
    )
      go(sessionHref(place));
  };
  const all = [...(history.data?.data.filter(one => one.current) ?? []), ...(archives.data?.data ?? [])];
  if (archives.error && history.error) return <Trouble error={archives.error} again={archives.again} />;
  if (!archives.data && !archives.error) return <Loading />;
  if (!all.length)
    return (
      <Empty title="No past" icon="clock">
        Resets and deletions leave their transcripts here.
      </Empty>
    );
  return (
    <ul class="cards scroll" tabIndex={0} aria-label="History">
      {all.map(one => (
        <li key={one.sessionId + (one.archivedAs?.[0] ?? '')} class="card">
          <header>
            {one.current ? <Badge tone="good">now</Badge> : <Badge>{one.reason ?? 'archived'}</Badge>}
            <span class="mono cut">{one.sessionId}</span>
            <span class="spacer" />
            <Age at={one.endedAt ?? one.time ?? one.at} />
          </header>
          <footer>
            {(one.archivedAs ?? []).slice(0, 6).map(file => (
              <a key={file} class="mono cut" href={sessionHref(place, undefined, { archive: file })}>
                {file.replace(one.sessionId, '…')}
              </a>
            ))}
            {one.current && <a href={sessionHref(place)}>Its conversation</a>}
            <span class="spacer" />
            {!one.current && may('write') && (
              <button type="button" class="small" onClick={() => void restore(one)}>
                Restore…
              </button>
            )}
          </footer>
        </li>
      ))}
    </ul>
  );
}
