// One question of an agent, over all else: what a link opens for somebody who answers with a thumb.
import { useEffect, useRef, useState } from 'preact/hooks';
import { pathOf, type Approval, type Place } from '../../api/client';
import type { Conversation } from '../../state/conversation';
import { partsOf, speakerOf } from '../../state/parts';
import { go, sessionHref, setQuery } from '../../state/route';
import { Dialog } from '../../ui/dialog';
import { lasted, seconds, text, visible } from '../../ui/format';
import { Loading, Trouble } from '../../ui/states';
import { useAsk } from '../../ui/use';
import { Answers, Arguments, Decided, mayAnswer } from './approval_parts';

const STILL_MS = 400; // a press that was meant for what stood here before does nothing

// What was said before it was asked: the last words of people and of the agent.
function Before({ conversation, at }: { conversation: Conversation; at: number }) {
  const said = conversation.messages.value
    .filter(message => message.type === 'message' && Number(message.timestamp) <= at)
    .flatMap(message => {
      const part = partsOf(message).find(one => one.kind === 'text');
      return part
        ? [
            {
              id: message.id,
              by: speakerOf(message) || (message.role === 'assistant' ? conversation.place.agent : text(message.role)),
              text: part.text,
            },
          ]
        : [];
    })
    .slice(-2);
  return (
    <>
      {said.map(one => (
        <p key={one.id} class="soft before" dir="auto">
          <b>{one.by}</b> {one.text.replace(/[*`]/g, '').slice(0, 400)}
        </p>
      ))}
    </>
  );
}

function Question({ approval, conversation }: { approval: Approval; conversation: Conversation }) {
  const [isStill, setStill] = useState(false),
    [isRead, setRead] = useState(false),
    end = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const timer = setTimeout(() => setStill(true), STILL_MS);
    return () => clearTimeout(timer);
  }, []);
  // Long arguments have to be seen to their end before they can be allowed.
  useEffect(() => {
    const watch = new IntersectionObserver(seen => {
      if (seen.some(one => one.isIntersecting)) setRead(true);
    });
    watch.observe(end.current!);
    return () => watch.disconnect();
  }, []);
  const left = approval.deadline - seconds.value,
    part = Math.max(0, Math.min(1, left / (approval.deadline - approval.askedAt)));
  return (
    <>
      <p class="row">
        <span class="grow soft">No answer counts as no</span>
        <strong class="warn-text num">{left > 0 ? `${lasted(left)} left` : 'Time is over'}</strong>
      </p>
      <progress class="time-left" max={1} value={part} aria-label="Time left" />
      <div class="sheet-scroll" tabIndex={0} role="region" aria-label="What it would do">
        <Arguments approval={approval} />
        <span ref={end} class="end" />
        <Before conversation={conversation} at={approval.askedAt} />
      </div>
      {isStill && !isRead && mayAnswer(approval) && (
        <p class="soft" id="read-first" role="status">
          Read the arguments to their end to allow it.
        </p>
      )}
      <Answers approval={approval} mayAllow={isStill && isRead} mayDeny={isStill} />
    </>
  );
}

export function ApprovalSheet({ place, id, conversation }: { place: Place; id: string; conversation: Conversation }) {
  const { data, error, again } = useAsk<Approval>(
    pathOf(place, '/approvals/' + encodeURIComponent(id)),
    event => event.type === 'approval.resolved' && event.data.id === id,
  );
  // An address without the topic: what was said before it stands there.
  const topic = data?.topic ?? '';
  useEffect(() => {
    if (data && topic !== conversation.topic) setQuery({ topic: topic || null });
  }, [data, topic, conversation]);
  return (
    <Dialog
      title={data ? `${place.agent} asks to use ${visible(data.tool)}` : 'Approval'}
      look="sheet"
      onClose={() => go(sessionHref(place, undefined, { topic: conversation.topic || undefined }), true)}
    >
      {error ? (
        <Trouble error={error} again={again} />
      ) : !data ? (
        <Loading lines={3} />
      ) : data.decision === null ? (
        <Question key={data.id} approval={data} conversation={conversation} />
      ) : (
        <>
          <p>
            <Decided approval={data} />
          </p>
          <Arguments approval={data} />
        </>
      )}
    </Dialog>
  );
}
