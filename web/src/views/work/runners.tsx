// The runners that have taken a run since the daemon started, and when each took the last one.
import { Age } from '../../ui/basics';
import { useAsk } from '../../ui/use';

export function Runners() {
  const { data } = useAsk<{ data: { runner: string; lastAt: number }[] }>(
    '/v1/runners',
    event => event.type === 'run.started',
  );
  if (!data?.data.length) return null;
  return (
    <p class="soft facts runners">
      Runners, and how long ago each took a run:
      {data.data.map(one => (
        <span key={one.runner}>
          {one.runner} <Age at={one.lastAt} />
        </span>
      ))}
    </p>
  );
}
