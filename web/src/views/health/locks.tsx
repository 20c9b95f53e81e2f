// Locks that are shared with foreign programs: who holds each, what waits, and taking one away.
import { useEffect } from 'preact/hooks';
import { post, withQuery, type Schemas } from '../../api/client';
import { Badge } from '../../ui/basics';
import { confirm } from '../../ui/dialog';
import { span } from '../../ui/format';
import { Loading, Trouble } from '../../ui/states';
import { doing } from '../../ui/toast';
import { useAsk } from '../../ui/use';

type Lock = Schemas['Lock'];

function holderOf({ holder, lent }: Lock): string {
  if (lent) return `lent to token ${lent.to}`;
  if (!holder) return 'free';
  return [holder.ours ? 'this daemon' : 'a foreign program', holder.pid && `pid ${holder.pid}`, holder.host, holder.why]
    .filter(Boolean)
    .join(', ');
}

export function Locks({ tick }: { tick: number }) {
  const { data, error, again } = useAsk<{ data: Lock[] }>('/v1/admin/locks');
  useEffect(() => {
    if (tick) again();
  }, [tick]);
  const evict = async (lock: Lock) => {
    const transcript =
      lock.path.endsWith('sessions.json.lock') || lock.path.endsWith('sessions.json') ? undefined : lock.path;
    if (
      await confirm(
        'Take the lock away',
        <>
          <p>
            {holderOf(lock)} holds <code>{lock.path}</code>.
          </p>
          <p>
            If that program still writes, both write at once. The daemon refuses when the holder is not provably gone.
          </p>
        </>,
        'Take it',
        true,
      )
    )
      await doing('Taken away', () =>
        post(withQuery(`/v1/admin/locks/${encodeURIComponent(lock.agent)}/evict`, { transcript })),
      ).then(again);
  };
  if (error) return <Trouble error={error} again={again} />;
  if (!data) return <Loading lines={2} />;
  if (!data.data.length) return <p class="soft">No lock is held or waited for.</p>;
  return (
    <div class="table-wrap" tabIndex={0} role="region" aria-label="Locks">
      <table>
        <thead>
          <tr>
            {['Agent', 'File', 'Held by', 'Since', 'Waiting', ''].map(name => (
              <th key={name} scope="col">
                {name || <span class="sr-only">Action</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {data.data.map(lock => (
            <tr key={lock.path}>
              <td>{lock.agent}</td>
              <td class="mono">{lock.path}</td>
              <td>
                {holderOf(lock)} {lock.holder?.stale && <Badge tone="bad">stale</Badge>}
              </td>
              <td class="num">{lock.holder ? span(lock.holder.ageMs) : ''}</td>
              <td class="num">
                {lock.waiting ? `${lock.waiting.requests} requests, evicted in ${span(lock.waiting.evictInMs)}` : ''}
              </td>
              <td>
                {lock.held && !lock.holder?.ours && (
                  <button type="button" class="small danger" onClick={() => void evict(lock)}>
                    Evict…
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
