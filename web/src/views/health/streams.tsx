// Who follows events, how far behind each is, and closing one.
import { useEffect } from 'preact/hooks';
import { ask, type Schemas } from '../../api/client';
import { Badge } from '../../ui/basics';
import { confirm } from '../../ui/dialog';
import { bytes, count, span } from '../../ui/format';
import { Loading, Trouble } from '../../ui/states';
import { doing } from '../../ui/toast';
import { useAsk } from '../../ui/use';

type Stream = Schemas['Stream'];

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
  if (error) return <Trouble error={error} again={again} />;
  if (!data) return <Loading lines={2} />;
  if (!data.data.length) return <p class="soft">Nobody follows events.</p>;
  return (
    <div class="table-wrap" tabIndex={0} role="region" aria-label="Event streams">
      <table>
        <thead>
          <tr>
            {['Stream', 'Token', 'From', 'State', 'Behind', 'Sent', 'Open for', ''].map(name => (
              <th key={name} scope="col">
                {name || <span class="sr-only">Action</span>}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {data.data.map(stream => (
            <tr key={stream.id}>
              <td class="num">{stream.id}</td>
              <td class="mono">{stream.token}</td>
              <td>{stream.peer}</td>
              <td>
                <Badge tone={stream.state === 'live' ? 'good' : stream.state === 'blocked' ? 'bad' : 'warn'}>
                  {stream.state.replace('_', ' ')}
                </Badge>
              </td>
              <td class="num">{count(stream.lag.events ?? 0)}</td>
              <td class="num">{bytes(stream.sentBytes)}</td>
              <td class="num">{span(stream.openMs)}</td>
              <td>
                <button
                  type="button"
                  class="small"
                  aria-label={`Close stream ${stream.id}`}
                  onClick={() => void close(stream)}
                >
                  Close…
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
