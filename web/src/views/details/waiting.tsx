// What waits behind the turn, and which tools need no answer any more.
import { ask, pathOf, withQuery, type Place, type Run } from '../../api/client';
import type { Conversation } from '../../state/conversation';
import { partsOf, speakerOf } from '../../state/parts';
import { may } from '../../state/who';
import { visible } from '../../ui/format';
import { doing } from '../../ui/toast';
import { useAsk } from '../../ui/use';

export function Waiting({ conversation }: { conversation: Conversation }) {
  const { place } = conversation;
  const { data } = useAsk<{ data: Run[] }>(
    withQuery(pathOf(place, '/runs'), { status: 'queued', limit: 20 }),
    event => event.key === place.key && event.agent === place.agent && event.type.startsWith('run.'),
  );
  const runs = (data?.data ?? []).filter(run => (run.topic ?? '') === conversation.topic),
    ids = runs.flatMap(run => run.input);
  if (!runs.length) return null;
  const known = new Map(conversation.messages.value.map(message => [message.id, message]));
  return (
    <section aria-label="Waiting">
      <h3 class="row">
        <span class="grow">{conversation.running.value ? 'Waits behind this turn' : 'Waits for a runner'}</span>
        <span class="soft num">{ids.length || runs.length}</span>
      </h3>
      <ul class="waiting">
        {ids.map(id => {
          const message = known.get(id),
            said = message && partsOf(message).find(part => part.kind === 'text');
          return (
            said && (
              <li key={id} class="cut" dir="auto">
                <b>{speakerOf(message)}</b> {said.text.slice(0, 200)}
              </li>
            )
          );
        })}
      </ul>
    </section>
  );
}

export function AllowedTools({ place }: { place: Place }) {
  const { data, again } = useAsk<{ data: string[] }>(
    pathOf(place, '/allowed-tools'),
    event => event.key === place.key && event.agent === place.agent && event.type === 'approval.resolved',
  );
  if (!data?.data.length) return null;
  const forget = (tool: string) =>
    doing('It will be asked for again', () =>
      ask(pathOf(place, '/allowed-tools/' + encodeURIComponent(tool)), { method: 'DELETE' }),
    ).then(again);
  return (
    <section aria-label="Allowed without asking">
      <h3>Allowed without asking</h3>
      <ul class="waiting">
        {data.data.map(tool => (
          <li key={tool} class="row">
            <code class="grow cut">{visible(tool)}</code>
            {may('policy') && (
              <button type="button" class="small" onClick={() => void forget(tool)}>
                Ask again
              </button>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
