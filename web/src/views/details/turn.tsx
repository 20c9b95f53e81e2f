// The turn of the agent that is under way, or the last one: who asked, how far it is, and where its answer goes.
import { pathOf, withQuery, type Run } from '../../api/client';
import type { Conversation } from '../../state/conversation';
import { isInternal, speakerOf } from '../../state/parts';
import { approvals } from '../../state/work';
import { channelName } from '../../ui/basics';
import { ago, clock, lasted, text } from '../../ui/format';
import { Pairs } from '../../ui/side_panel';
import { useAsk, useTick } from '../../ui/use';

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
  const { data } = useAsk<{ data: Run[] }>(
    withQuery(pathOf(place, '/runs'), { limit: 20 }),
    event => event.key === place.key && event.agent === place.agent && /^(run|step)\./.test(event.type),
  );
  useTick(1000);
  const runs = (data?.data ?? []).filter(run => (run.topic ?? '') === topic && run.status !== 'queued'),
    run = runs.find(one => one.status === 'running' || one.status === 'aborting') ?? runs[0];
  if (!run) return null;
  const began = run.startedAt ?? run.createdAt,
    messages = conversation.messages.value,
    message =
      messages.find(one => one.id === run.input[0]) ??
      messages.findLast(one => one.role === 'user' && !isInternal(one) && Number(one.timestamp) <= began);
  const asks = approvals.value.some(approval => approval.runId === run.runId),
    live = conversation.running.value,
    reply = run.replyTo as { channel?: string; to?: string } | undefined,
    isOpen = run.endedAt === null;
  const steps = isOpen && live?.runId === run.runId ? Math.max(live.step, run.steps) : run.steps;
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
          ['Runner seen', isOpen && live && `${ago(live.seen) || 'now'}${ago(live.seen) === 'now' ? '' : ' ago'}`],
          [
            isOpen ? 'Works for' : 'Took',
            run.startedAt !== null && lasted((run.endedAt ?? Date.now()) - run.startedAt),
          ],
          ['Answers to', reply?.to && `${reply.to}, ${channelName(text(reply.channel))}`],
        ]}
      />
    </section>
  );
}
