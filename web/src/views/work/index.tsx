// What waits for somebody, and what runs now.
import { idOf, type Run } from '../../api/client';
import { sessionHref } from '../../state/route';
import { titleOf } from '../../state/sessions';
import { may } from '../../state/who';
import { approvals } from '../../state/work';
import { Age, Badge, Channel, Head } from '../../ui/basics';
import { text } from '../../ui/format';
import { Empty } from '../../ui/states';
import { useActive, type Active } from './active';
import { ApprovalCard } from './approval_card';
import { Deliveries } from './deliveries';
import { RUN_TONES, stopRun } from './run_list';

function ActiveRow({ one }: { one: Active }) {
  const { session, step, tool } = one,
    place = { agent: text(session.agent), key: text(session.key) };
  const active = session.activeRun as string | { runId?: string } | undefined,
    runId = typeof active === 'string' ? active : text(active?.runId);
  return (
    <li class="card row">
      <Badge tone={RUN_TONES[text(session.status) as Run['status']] ?? 'info'}>
        {text(session.status) || 'running'}
      </Badge>
      <a class="grow cut" dir="auto" href={sessionHref(place)}>
        {titleOf(session)}
      </a>
      <Channel name={text(session.channel)} />
      <span class="soft">
        {step > 0 && `step ${step}`}
        {tool && (
          <>
            {' '}
            · <code>{tool}</code>
          </>
        )}
      </span>
      <Age at={session.startedAt ?? session.updatedAt} />
      {may('abort') && (
        <button type="button" class="danger small" onClick={() => void stopRun(place, runId)}>
          Stop
        </button>
      )}
    </li>
  );
}

export function WorkView() {
  const { active, runners } = useActive();
  return (
    <section class="view" aria-label="Work">
      <Head title="Work" />
      <div class="scroll pad" tabIndex={0} role="region" aria-label="Approvals, runs and deliveries">
        <h2>
          Waiting for approval <span class="soft num">{approvals.value.length}</span>
        </h2>
        {!may('approve') ? (
          <p class="soft">This token may not answer approvals.</p>
        ) : approvals.value.length ? (
          <div class="approvals">
            {approvals.value.map(approval => (
              <ApprovalCard key={approval.id} approval={approval} placed />
            ))}
          </div>
        ) : (
          <p class="soft">Nothing waits for an approval.</p>
        )}
        <h2>
          Running now <span class="soft num">{active.length}</span>
        </h2>
        {active.length ? (
          <ul class="cards">
            {active.map(one => (
              <ActiveRow key={idOf(one.session)} one={one} />
            ))}
          </ul>
        ) : (
          <Empty title="No run at work" icon="work" />
        )}
        {runners.length > 0 && (
          <p class="soft facts">
            Runners, and how long ago each asked for work:
            {runners.map(one => (
              <span key={one.runner}>
                {one.runner} <Age at={one.lastAt} />
              </span>
            ))}
          </p>
        )}
        <Deliveries />
      </div>
    </section>
  );
}
