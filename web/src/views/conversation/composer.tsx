// Sends as operator. What the send policy says of it stands above the field before anything is sent.
import { useState } from 'preact/hooks';
import { ask, pathOf, post, type Place, type Schemas, type Session } from '../../api/client';
import { hrefOf } from '../../state/route';
import { Badge } from '../../ui/basics';
import { text } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { doing } from '../../ui/toast';
import { useAsk } from '../../ui/use';

export function Composer({ place, session, topic }: { place: Place; session: Session | null; topic: string }) {
  const [draft, setDraft] = useState(''),
    [busy, setBusy] = useState(false);
  const policy = useAsk<Schemas['SessionPolicy']>(
    pathOf(place, '/send-policy'),
    event => event.type === 'policy.changed' || (event.type === 'session.updated' && event.key === place.key),
  );
  const decision = policy.data?.effective,
    denied = decision?.action === 'deny';
  const to = text(session?.lastTo) || text(session?.subject),
    channel = text(session?.lastChannel) || text(session?.channel);
  const send = async () => {
    if (!draft.trim() || busy || denied) return;
    setBusy(true);
    if (await doing('Sent', () => post(pathOf(place, '/outbound'), { text: draft, ...(topic ? { topic } : {}) })))
      setDraft('');
    setBusy(false);
  };
  const type = () => {
    if (!topic) void ask(pathOf(place, '/typing'), { method: 'POST', body: {} }).catch(() => {});
  };
  return (
    <form
      class="composer"
      onSubmit={event => {
        event.preventDefault();
        void send();
      }}
    >
      <p class="verdict">
        {decision ? (
          <Badge tone={denied ? 'bad' : 'good'}>{denied ? 'denied' : 'allowed'}</Badge>
        ) : (
          <Badge>asking the policy</Badge>
        )}
        <span class="soft">
          {denied ? 'The send policy refuses messages here: ' : 'Goes out'}
          {channel && !denied && ` over ${channel}`}
          {to && !denied && ` to ${to}`}
          {decision && (
            <>
              {denied ? '' : ', by '}
              {decision.source === 'rule' ? (
                <a href={hrefOf('policy', [], { rule: decision.rule })}>rule {Number(decision.rule) + 1}</a>
              ) : decision.source === 'session' ? (
                "this session's own policy"
              ) : decision.source === 'default' ? (
                'the default'
              ) : (
                'no rule'
              )}
            </>
          )}
        </span>
      </p>
      <div class="compose-row">
        <textarea
          rows={1}
          value={draft}
          placeholder="Send as operator"
          aria-label="Send as operator"
          disabled={denied}
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
        <button type="submit" class="primary" disabled={denied || busy || !draft.trim()} aria-label="Send">
          <Icon name="send" />
          <span class="wide-only">Send</span>
        </button>
      </div>
    </form>
  );
}
