// The programs that are asked or told when something happens in a run.
import { ask, type Schemas } from '../../api/client';
import { may } from '../../state/who';
import { Badge } from '../../ui/basics';
import { confirm } from '../../ui/dialog';
import { span } from '../../ui/format';
import { Empty, Loading, Trouble } from '../../ui/states';
import { doing } from '../../ui/toast';
import { useAsk } from '../../ui/use';

type Hook = Schemas['Hook'];

function waitsOf({ blocking, timeoutMs, onTimeout }: Hook): string {
  if (!blocking) return 'It is told, and nothing waits for it';
  const silence = onTimeout === 'block' ? 'no answer blocks' : 'without an answer it goes on';
  return timeoutMs ? `Runs wait for it up to ${span(timeoutMs)}: ${silence}` : `Runs wait for it: ${silence}`;
}

export function Hooks() {
  const { data, error, again } = useAsk<{ data: Hook[] }>('/v1/hooks');
  const remove = async ({ name }: Hook) => {
    const says = <p>It is asked and told no more. Its program can make it again.</p>;
    if (await confirm(`Remove the hook ${name}?`, says, 'Remove', true))
      await doing('Removed', () => ask('/v1/hooks/' + encodeURIComponent(name), { method: 'DELETE' })).then(again);
  };
  if (error) return <Trouble error={error} again={again} />;
  if (!data) return <Loading lines={2} />;
  if (!data.data.length)
    return (
      <Empty title="No hooks" icon="tool">
        A program that wants a say in runs makes one with <code>PUT /v1/hooks/NAME</code>.
      </Empty>
    );
  return (
    <ul class="cards">
      {data.data.map(hook => (
        <li key={hook.name} class="card">
          <header>
            <strong class="mono">{hook.name}</strong>
            {hook.blocking && <Badge tone="info">blocking</Badge>}
            <span class="spacer" />
            {may('policy') && (
              <button type="button" class="danger small" onClick={() => void remove(hook)}>
                Remove…
              </button>
            )}
          </header>
          <p class="soft facts">
            <span>{hook.events.join(', ')}</span>
            <span>{hook.agents ? `Agents: ${hook.agents.join(', ')}` : 'All agents'}</span>
          </p>
          <p class="soft">{waitsOf(hook)}</p>
        </li>
      ))}
    </ul>
  );
}
