// What a person may do to the agent of a conversation at any moment: stop it, speak in its place, let it speak again.
import { useEffect, useState } from 'preact/hooks';
import { idOf, type Place, type Session } from '../../api/client';
import { useActions } from '../../state/actions';
import type { Conversation } from '../../state/conversation';
import type { Running } from '../../state/running';
import { needOf } from '../../state/needs';
import { isRunning } from '../../state/sessions';
import { isMine, takeoverOf } from '../../state/takeover';
import { may } from '../../state/who';
import { approvals } from '../../state/work';
import { Badge } from '../../ui/basics';
import { lasted, seconds } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { stopRun } from '../work/run_list';
import { HandBack } from './hand_back';
import { TakeOver } from './take_over';

const QUIET_MS = 30_000;

// How far the run is, counted by the second, and since when nothing new came of it. Its runner may be alive all the same: a
// heartbeat is not an event.
function AtWork({ run }: { run: Running }) {
  const quiet = seconds.value - run.seen;
  return (
    <span class="at-work num">
      <i class="spinner" aria-hidden="true" />
      {run.step > 0 ? `Step ${run.step}, ` : 'At work, '}
      {lasted(seconds.value - run.since)}
      {quiet > QUIET_MS && <span class="soft">nothing new for {lasted(quiet)}</span>}
    </span>
  );
}

export function Controls({
  place,
  session,
  conversation,
}: {
  place: Place;
  session: Session;
  conversation: Conversation;
}) {
  const [asking, setAsking] = useState<'' | 'take' | 'give'>('');
  const run = conversation.running.value,
    takeover = takeoverOf(session),
    running = !!run || isRunning(session);
  const asked = approvals.value.some(approval => idOf(approval) === idOf(place));
  const isHeld = !!takeover,
    unclaimed = needOf(session)?.rank === 2 ? needOf(session)?.words : '';
  useEffect(() => {
    if (!isHeld) setAsking(old => (old === 'give' ? '' : old)); // somebody else has handed it back
  }, [isHeld]);
  const stop = () => {
    if (run && may('abort')) void stopRun(place, run.runId);
  };
  const mayTake = may('takeover') && !session.archivedAt;
  useActions({
    stop: !!run && stop,
    takeOver: mayTake && !takeover && (() => setAsking('take')),
    handBack: mayTake && isHeld && (() => setAsking('give')),
  });
  return (
    <>
      {asked ? (
        <span class="at-work warn-text">
          <Icon name="key" size={16} />
          {may('approve') ? 'Waits for you' : 'Waits for an answer'}
        </span>
      ) : run ? (
        <AtWork run={run} />
      ) : running ? (
        <Badge tone="info">running</Badge>
      ) : (
        unclaimed && (
          <span class="at-work warn-text">
            <Icon name="clock" size={16} />
            {unclaimed}
          </span>
        )
      )}
      {run && may('abort') && (
        <button type="button" onClick={stop} title="Stop what the agent does (s)">
          <Icon name="stop" size={16} />
          Stop
        </button>
      )}
      {mayTake && (
        <button
          type="button"
          class={takeover && isMine(takeover) ? 'primary' : ''}
          onClick={() => setAsking(takeover ? 'give' : 'take')}
        >
          <Icon name={takeover ? 'back' : 'hand'} size={16} />
          {takeover ? 'Hand back' : 'Take over'}
        </button>
      )}
      {asking === 'take' && <TakeOver place={place} running={running} onClose={() => setAsking('')} />}
      {asking === 'give' && takeover && (
        <HandBack conversation={conversation} takeover={takeover} onClose={() => setAsking('')} />
      )}
    </>
  );
}
