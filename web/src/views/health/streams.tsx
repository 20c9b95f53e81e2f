// Who follows events, how far behind each is, and closing one. Who is furthest behind stands first.
import { nameOfToken } from '../../state/token_names';
import { useEffect } from 'preact/hooks';
import { ask, type Schemas } from '../../api/client';
import { confirm } from '../../ui/dialog';
import { count, span, visible } from '../../ui/format';
import { Loading, Trouble } from '../../ui/states';
import { doing } from '../../ui/toast';
import { useAsk } from '../../ui/use';
import { BEHIND_EVENTS } from './charts';

type Stream = Schemas['Stream'];

const TONES: Record<string, string> = { live: 'good', catching_up: 'warn', blocked: 'warn' };

// What a stream asked to see, in words.
function followed({ filters }: Stream): string {
  const { deliver, types, agent, key, keyPrefix, channel, topic } = filters;
  const what = [deliver && 'deliveries', Array.isArray(types) && types.join(', ')].filter(Boolean).join(', ');
  const where = [
    channel && `of ${channel}`,
    agent && `of agent ${agent}`,
    key && `in ${key}`,
    keyPrefix && `in ${keyPrefix}…`,
    topic && `in topic ${topic}`,
  ].filter(Boolean);
  return visible([what || 'everything', ...where].join(' '));
}

const stateOf = ({ state, waitsMs }: Stream) =>
  state === 'blocked' && waitsMs ? `stalled for ${span(waitsMs)}` : state.replace('_', ' ');

export function Streams({ tick }: { tick: number }) {
  const { data, error, again } = useAsk<{ data: Stream[] }>('/v1/admin/streams');
  useEffect(() => {
    if (tick) again();
  }, [tick]);
  const close = async (stream: Stream) => {
    if (
      await confirm(
        'Close the stream',
        <p>Its client is told good-bye and may open another one, from where it was.</p>,
        'Close it',
        true,
      )
    )
      await doing('Closed', () => ask(`/v1/admin/streams/${stream.id}`, { method: 'DELETE' })).then(again);
  };
  const behind = (stream: Stream) => stream.lag.events ?? 0,
    streams = [...(data?.data ?? [])].sort((a, b) => behind(b) - behind(a));
  return (
    <section aria-label="Streams">
      <h2>
        Streams{' '}
        {streams.length > 0 && (
          <span class="soft small">
            {streams.filter(one => one.state === 'live').length} of {streams.length} up to date
          </span>
        )}
      </h2>
      {error ? (
        <Trouble error={error} again={again} />
      ) : !data ? (
        <Loading lines={2} />
      ) : !streams.length ? (
        <p class="soft">Nobody follows events.</p>
      ) : (
        <div class="health-table" tabIndex={0} role="region" aria-label="Table of streams">
          <table>
            <thead>
              <tr>
                {['Token', 'Follows', 'State', 'Events behind', 'Open for', ''].map((name, n) => (
                  <th key={name} scope="col" class={n > 2 ? 'right' : ''}>
                    {name || <span class="sr-only">Action</span>}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {streams.map(stream => (
                <tr key={stream.id}>
                  <td dir="auto">{visible(nameOfToken(stream.token))}</td>
                  <td class="any" dir="auto">
                    {followed(stream)}
                  </td>
                  <td class="state">
                    <i class={`dot ${TONES[stream.state] ?? ''}`} aria-hidden="true" /> {stateOf(stream)}
                  </td>
                  <td class={`right num ${behind(stream) > BEHIND_EVENTS ? 'warn-text' : ''}`}>
                    {count(behind(stream))}
                  </td>
                  <td class="right num soft">{span(stream.openMs)}</td>
                  <td class="right">
                    <button
                      type="button"
                      aria-label={`Close the stream of ${nameOfToken(stream.token)}`}
                      onClick={() => void close(stream)}
                    >
                      Close
                    </button>
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
