// What people asked, on its way to an answer: six counters, and below them each piece of work in order of need.
import { useEffect } from 'preact/hooks';
import { useActions } from '../../state/actions';
import { go, hrefOf, route, setQuery } from '../../state/route';
import { GROUPS, STAGES, type Item, type Stage } from '../../state/stages';
import { Head } from '../../ui/basics';
import { Empty, Loading, Trouble } from '../../ui/states';
import { Counters, STAGE_NAMES } from './counters';
import { DeliveryPanel } from './delivery_panel';
import { Runners } from './runners';
import { useWork } from './use_work';
import { WorkRow, workHref } from './work_row';

const REMARKS: Partial<Record<Stage, string>> = {
  failed: 'They stay until somebody sends them again or gives them up',
  waiting: 'For a runner',
  asking: 'A person must answer',
  sent: 'Since midnight',
};

const NOTHING: Partial<Record<Stage, string>> = {
  waiting: 'Nothing waits for a runner',
  working: 'No agent is at work',
  asking: 'No agent asks for anything',
  sending: 'Every message has been sent',
  sent: 'Nothing was sent since midnight',
  failed: 'Nothing has failed',
};

function Agents({ agents, chosen }: { agents: string[]; chosen: string | null }) {
  if (agents.length < 2 && !chosen) return null;
  return (
    <div class="segments" role="group" aria-label="Agent">
      {[null, ...agents].map(agent => (
        <button key={agent} type="button" aria-pressed={chosen === agent} onClick={() => setQuery({ agent })}>
          {agent ?? 'All agents'}
        </button>
      ))}
    </div>
  );
}

export function WorkView() {
  const work = useWork(),
    { parts, query } = route.value;
  const stage = query.get('stage'),
    agent = query.get('agent'),
    open = parts[0] === 'd' ? (parts[1] ?? '') : '';
  const step = (by: number) => () => {
    const rows = [...document.querySelectorAll<HTMLElement>('.work-row > a')],
      at = rows.indexOf(document.activeElement as HTMLElement);
    rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.focus();
  };
  useActions({ next: step(1), previous: step(-1) });
  useEffect(() => {
    document.title = 'Work · sessiond';
  }, []);
  const all = STAGES.flatMap(one => work.stages[one]);
  const agents = [...new Set([...all.map(item => item.place.agent), ...(agent ? [agent] : [])])].sort();
  const stages = agent
    ? (Object.fromEntries(
        STAGES.map(one => [one, work.stages[one].filter(item => item.place.agent === agent)]),
      ) as Record<Stage, Item[]>)
    : work.stages;
  const groups = GROUPS.filter(one => (!stage || one === stage) && stages[one].length);
  return (
    <section class="view with-panel" aria-label="Work">
      <div class="panel-content">
        <Head title="Work">
          <Agents agents={agents} chosen={agent} />
        </Head>
        <div class="scroll pad" tabIndex={0} role="region" aria-label="Runs, approvals and deliveries">
          <Counters work={work} stages={stages} />
          {work.error ? (
            <Trouble error={work.error} again={work.again} />
          ) : work.loading && !all.length ? (
            <Loading lines={6} />
          ) : (
            groups.map(one => (
              <section key={one} class="work-group" aria-label={STAGE_NAMES[one]}>
                <h2>
                  {STAGE_NAMES[one]} <span class="soft num">{stages[one].length}</span>
                  <span class="soft remark">{REMARKS[one]}</span>
                </h2>
                <ul>
                  {stages[one].map(item => (
                    <WorkRow
                      key={item.id}
                      item={item}
                      doing={work.doing.get(item.id)}
                      href={workHref(item, stage, agent)}
                      isOpen={item.id === open}
                    />
                  ))}
                </ul>
              </section>
            ))
          )}
          {!work.loading && !work.error && !groups.length && (
            <Empty title={(stage && NOTHING[stage as Stage]) || 'Nothing is on its way'} icon="work">
              A question appears here when it is asked, and stays until its answer is sent.
            </Empty>
          )}
          <Runners />
        </div>
      </div>
      {open && <DeliveryPanel key={open} id={open} onClose={() => go(hrefOf('work', [], { stage, agent }))} />}
    </section>
  );
}
