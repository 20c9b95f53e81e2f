// The turn of the agent that is under way, or the last one: who asked, how far it is, and where its answer goes.
import { pathOf, withQuery, type LiveEvent, type Run } from '../../api/client';
import type { Conversation } from '../../state/conversation';
import { isInternal, speakerOf } from '../../state/parts';
import { approvals } from '../../state/work';
import { channelName } from '../../ui/basics';
import { ago, clock, lasted, seconds, text } from '../../ui/format';
import { Pairs } from '../../ui/side_panel';
import { useAsk } from '../../ui/use';

const WORDS: Record<string, string> = {
  queued: 'Waits for a runner',
  running: 'At work',
  aborting: 'Is told to stop',
  done: 'Answered',
  failed: 'Failed',
  interrupted: 'Stopped',
  dropped: 'Dropped',
  expired: 'Nobody took it in time',
};

export function Turn({ conversation }: { conversation: Conversation }) {
  const { place, topic } = conversation;
  const isOfRun = (event: LiveEvent) =>
    event.key === place.key && event.agent === place.agent && /^(run|step)\./.test(event.type);
  const live = conversation.running.value;
  const active = useAsk<Run>(live && pathOf(place, '/runs/' + encodeURIComponent(live.runId)), isOfRun),
    past = useAsk<{ data: Run[] }>(live ? null : withQuery(pathOf(place, '/runs'), { limit: 50 }), isOfRun);
  const run = live ? active.data : past.data?.data.find(one => (one.topic ?? '') === topic && one.status !== 'queued');
  if (!run) return null;
  const began = run.startedAt ?? run.createdAt,
    messages = conversation.messages.value,
    message =
      messages.find(one => one.id === run.input[0]) ??
      messages.findLast(one => one.role === 'user' && !isInternal(one) && Number(one.timestamp) <= began);
  const asks = approvals.value.some(approval => approval.runId === run.runId),
    reply = run.replyTo as { channel?: string; to?: string } | undefined,
    isOpen = run.endedAt === null;
  const steps = isOpen && live ? Math.max(live.step, run.steps) : run.steps;
  return (
    <section aria-label="Turn">
      <h3 class="row">
        <span class="grow">{isOpen ? 'This turn' : 'The last turn'}</span>
        <span class={run.status === 'failed' ? 'bad-text' : asks ? 'warn-text' : 'soft'}>
          {asks ? 'Waits for an answer' : (WORDS[run.status] ?? run.status)}
        </span>
      </h3>
      <Pairs
        rows={[
          [
            'Asked by',
            message &&
              `${speakerOf(message) || text(message.role)}, ${clock(Number(message.timestamp) || run.createdAt)}`,
          ],
          ['Step', steps > 0 && `${steps}${run.maxSteps ? ` of at most ${run.maxSteps}` : ''}`],
          ['Attempt', run.attempt > 1 && run.attempt],
          ['Model', run.model],
          ['Runner', run.runner],
          ['Last news', isOpen && live && `${ago(live.seen) || 'now'}${ago(live.seen) === 'now' ? '' : ' ago'}`],
          [
            isOpen ? 'Works for' : 'Took',
            run.startedAt !== null && lasted((run.endedAt ?? seconds.value) - run.startedAt),
          ],
          ['Answers to', reply?.to && `${reply.to}, ${channelName(text(reply.channel))}`],
        ]}
      />
    </section>
  );
}
