// Locks that are shared with foreign programs: who holds each, what waits, and taking one away.
import { nameOfToken } from '../../state/token_names';
import { useEffect } from 'preact/hooks';
import { post, withQuery, type Schemas } from '../../api/client';
import { confirm } from '../../ui/dialog';
import { lasted, now, span, visible } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Loading, Trouble } from '../../ui/states';
import { doing } from '../../ui/toast';
import { useAsk } from '../../ui/use';

type Lock = Schemas['Lock'];

const isTranscript = (lock: Lock) => !/sessions\.json(\.lock)?$/.test(lock.path);

// The holder with its process, for those who decide by it.
const processOf = ({ holder }: Lock) =>
  visible(
    [holder?.pid && `process ${holder.pid}`, holder?.host && `on ${holder.host}`, holder?.why]
      .filter(Boolean)
      .join(', '),
  );

function Now({ lock }: { lock: Lock }) {
  const { held, holder, lent } = lock;
  if (lent)
    return (
      <>
        lent to <span dir="auto">{visible(nameOfToken(lent.to))}</span>, {lasted(lent.expiresAt - now.value)} left
      </>
    );
  if (!held || !holder) return <span class="soft">free</span>;
  if (holder.ours) return <>held by this daemon</>;
  if (!holder.stale) return <>held by another program for {span(holder.ageMs)}</>;
  return (
    <span class="bad-text">
      <Icon name="warn" size={14} /> held by a program that is gone
    </span>
  );
}

const Waiting = ({ waiting }: Pick<Lock, 'waiting'>) =>
  waiting ? (
    <span class="warn-text">
      <Icon name="clock" size={14} /> {waiting.requests} {waiting.requests === 1 ? 'request' : 'requests'} for{' '}
      {span(now.value - waiting.since)}, taken away in {lasted(waiting.evictInMs)}
    </span>
  ) : (
    <span class="soft">–</span>
  );

export function Locks({ tick }: { tick: number }) {
  const { data, error, again } = useAsk<{ data: Lock[] }>('/v1/admin/locks');
  useEffect(() => {
    if (tick) again();
  }, [tick]);
  const evict = async (lock: Lock) => {
    if (
      await confirm(
        'Take the lock away',
        <>
          <p>
            Another program ({processOf(lock)}) holds <code>{visible(lock.path)}</code>.
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
        post(
          withQuery(`/v1/admin/locks/${encodeURIComponent(lock.agent)}/evict`, {
            transcript: isTranscript(lock) ? lock.path : undefined,
          }),
        ),
      ).then(again);
  };
  return (
    <section aria-label="Locks">
      <h2>
        Locks <span class="soft small">of sessions.json</span>
      </h2>
      {error ? (
        <Trouble error={error} again={again} />
      ) : !data ? (
        <Loading lines={2} />
      ) : !data.data.length ? (
        <p class="soft">No lock is held or waited for.</p>
      ) : (
        <div class="health-table" tabIndex={0} role="region" aria-label="Table of locks">
          <table>
            <thead>
              <tr>
                <th scope="col">Agent</th>
                <th scope="col">Now</th>
                <th scope="col" class="right">
                  Waiting
                </th>
                <th scope="col">
                  <span class="sr-only">Action</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {data.data.map(lock => (
                <tr key={lock.path}>
                  <td>
                    <span dir="auto">{visible(lock.agent)}</span>
                    {isTranscript(lock) && <span class="soft small"> {visible(lock.path.split('/').at(-1)!)}</span>}
                  </td>
                  <td>
                    <Now lock={lock} />
                  </td>
                  <td class="right">
                    <Waiting waiting={lock.waiting} />
                  </td>
                  <td class="right">
                    {lock.held && !lock.holder?.ours && (
                      <button
                        type="button"
                        class="danger"
                        aria-label={`Take the lock of ${lock.agent} away`}
                        onClick={() => void evict(lock)}
                      >
                        Take…
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
