// Writes to the people of a conversation, or to its agent alone.
import { useRef, useState } from 'preact/hooks';
import { ask, pathOf, post, withQuery, type Place, type Schemas, type Session } from '../../api/client';
import { useActions } from '../../state/actions';
import type { Conversation } from '../../state/conversation';
import { myName } from '../../state/name';
import { channelOf } from '../../state/sessions';
import { isMine, takeoverOf } from '../../state/takeover';
import { may, who } from '../../state/who';
import { channelName } from '../../ui/basics';
import { Icon } from '../../ui/icons';
import { doing } from '../../ui/toast';
import { useAsk } from '../../ui/use';
import { Addressees, PolicyLine, type Addressee } from './addressee';

export function Composer({
  place,
  session,
  conversation,
}: {
  place: Place;
  session: Session | null;
  conversation: Conversation;
}) {
  const { topic } = conversation,
    [drafts, setDrafts] = useState({ agent: '', people: '' }), // what is meant for one never goes to the other
    [chosen, setChosen] = useState<Addressee>(may('run') ? 'agent' : 'people'),
    [within, setWithin] = useState(false), // a hint is part of what the agent does now
    [busy, setBusy] = useState(false);
  const policy = useAsk<Schemas['SessionPolicy']>(
    pathOf(place, '/send-policy'),
    event =>
      event.type === 'policy.changed' ||
      (event.type === 'session.updated' && event.key === place.key && event.agent === place.agent),
  );
  const takeover = takeoverOf(session),
    mine = !!takeover && isMine(takeover),
    to = takeover ? 'people' : chosen;
  const draft = drafts[to],
    setDraft = (text: string) => setDrafts(old => ({ ...old, [to]: text }));
  const verdict = policy.data?.effective,
    closed = to === 'people' && (verdict?.action === 'deny' || (!!takeover && !mine));
  const me = who.value?.id ?? '';
  const field = useRef<HTMLTextAreaElement>(null);
  useActions({ write: !closed && (() => field.current?.focus()) });
  const toPeople = () =>
    post(pathOf(place, '/outbound'), {
      text: draft,
      ...(topic ? { topic } : {}),
      ...(mine ? { takeover: true, name: takeover.name } : {}),
      ...(mine && conversation.seenSeq >= 0 ? { seenSeq: conversation.seenSeq } : {}),
    });
  // Behind what it does now, or as a part of it: a hint never stops an answer that people wait for.
  const replyTo = conversation.running.value?.replyTo,
    joins = within && !!replyTo;
  const toAgent = () =>
    post(withQuery(pathOf(place, '/runs'), { topic }), {
      input: { role: 'user', content: draft, audience: 'agent', from: { id: me, name: myName.value || me } },
      queueOnly: true,
      ...(joins ? { whenBusy: 'steer', replyTo } : { whenBusy: 'queue' }),
    });
  const send = async () => {
    if (!draft.trim() || busy || closed) return;
    setBusy(true);
    const sent = draft;
    if (await (to === 'agent' ? doing(`${place.agent} is told`, toAgent) : doing('On its way', toPeople)))
      setDrafts(old => (old[to] === sent ? { ...old, [to]: '' } : old));
    setBusy(false);
  };
  const type = () => {
    if (!topic && to === 'people' && !takeover)
      void ask(pathOf(place, '/typing'), { method: 'POST', body: {} }).catch(() => {});
  };
  const channel = channelOf(session),
    people = `people${channel && ` on ${channelName(channel)}`}`;
  const says =
    takeover && !mine ? `${takeover.name} speaks here` : to === 'people' ? `Write to ${people}` : `Tell ${place.agent}`;
  return (
    <form
      class={`composer to-${to}`}
      onSubmit={event => {
        event.preventDefault();
        void send();
      }}
    >
      {takeover && !mine ? null : to === 'people' ? (
        <PolicyLine session={session} verdict={verdict} />
      ) : (
        <p class="verdict soft">
          {joins
            ? `Only ${place.agent} is told. What it answers goes to ${people}.`
            : `Only ${place.agent} is told, and answers here: ${people} see neither.`}
          {replyTo && (
            <label class="row">
              <input type="checkbox" checked={within} onChange={event => setWithin(event.currentTarget.checked)} />
              Within what it does now
            </label>
          )}
        </p>
      )}
      <div class="compose-row">
        {may('run') && <Addressees place={place} to={to} agentWaits={!!takeover} onTo={setChosen} />}
        <textarea
          ref={field}
          rows={1}
          value={draft}
          placeholder={says}
          aria-label={says}
          disabled={closed}
          dir="auto"
          onInput={event => {
            if (!draft) type();
            setDraft(event.currentTarget.value);
          }}
          onKeyDown={event => {
            if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
              event.preventDefault();
              void send();
            }
          }}
        />
        <button type="submit" class="primary" disabled={closed || busy || !draft.trim()} aria-label="Send">
          <Icon name="send" />
          <span class="wide-only">Send</span>
        </button>
      </div>
    </form>
  );
}
