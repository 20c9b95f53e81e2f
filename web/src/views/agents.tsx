// The agents in the rail: how many conversations each works on, and how many wait for a runner.
import { idOf, type Schemas } from '../api/client';
import { UNCLAIMED_MS } from '../state/needs';
import { go, hrefOf } from '../state/route';
import { read } from '../state/session_pages';
import { filters } from '../state/sessions';
import { approvals, atWork, queued } from '../state/work';
import { now } from '../ui/format';
import { useAsk } from '../ui/use';

const MOST = 12;

const agentOf = (id: string) => id.split('\n', 1)[0]!;

export function Agents() {
  const { data } = useAsk<{ data: Schemas['AgentInfo'][] }>('/v1/agents', event => event.type === 'session.created');
  if (!data || data.data.length < 2) return null;
  const working = new Map<string, number>(),
    waiting = new Map<string, number>();
  const asking = new Set(approvals.value.map(idOf));
  for (const id of atWork.value) if (!asking.has(id)) working.set(agentOf(id), (working.get(agentOf(id)) ?? 0) + 1);
  for (const [id, since] of queued.value)
    if (now.value - since > UNCLAIMED_MS) waiting.set(agentOf(id), (waiting.get(agentOf(id)) ?? 0) + 1);
  const show = (agent: string) => {
    filters.value = { ...filters.value, agent: filters.value.agent === agent ? '' : agent };
    void read();
    go(hrefOf('sessions'));
  };
  return (
    <div class="agents" role="group" aria-label="Agents">
      <p class="soft" aria-hidden="true">
        Agents
      </p>
      {data.data.slice(0, MOST).map(({ agent }) => {
        const n = working.get(agent) ?? 0,
          waits = waiting.get(agent) ?? 0,
          words = waits ? `${waits} waiting` : n > 0 ? `${n} working` : '';
        return (
          <button
            key={agent}
            type="button"
            class="ghost"
            aria-pressed={filters.value.agent === agent}
            title={`Only the conversations of ${agent}`}
            onClick={() => show(agent)}
          >
            <i class={waits ? 'warn' : 'good'} aria-hidden="true" />
            <span class="cut grow">{agent}</span>
            <span class={waits ? 'warn-text' : 'soft'}>{words}</span>
          </button>
        );
      })}
    </div>
  );
}
