// Says to whom the composer writes, and what becomes of it there.
import type { Place, Schemas, Session } from '../../api/client';
import { hrefOf } from '../../state/route';
import { channelOf } from '../../state/sessions';
import { Badge, channelName } from '../../ui/basics';
import { text } from '../../ui/format';

export type Addressee = 'agent' | 'people';
export type Verdict = Schemas['SessionPolicy']['effective'];

// What the send policy says of a message to people.
export function PolicyLine({ session, verdict }: { session: Session | null; verdict?: Verdict }) {
  if (!verdict)
    return (
      <p class="verdict">
        <span class="soft">Asking the send policy…</span>
      </p>
    );
  const denied = verdict.action === 'deny',
    channel = channelOf(session),
    to = text(session?.lastTo) || text(session?.subject);
  return (
    <p class="verdict">
      <Badge tone={denied ? 'bad' : 'good'}>{denied ? 'denied' : 'allowed'}</Badge>
      <span class="soft">
        {denied
          ? 'The send policy refuses messages here: '
          : `Goes out${channel && ` over ${channelName(channel)}`}${to && ` to ${to}`}, by `}
        {verdict.source === 'rule' ? (
          <a href={hrefOf('policy', [], { rule: verdict.rule })}>rule {Number(verdict.rule) + 1}</a>
        ) : verdict.source === 'session' ? (
          "this session's own policy"
        ) : verdict.source === 'default' ? (
          'the default'
        ) : (
          'no rule'
        )}
      </span>
    </p>
  );
}

export function Addressees({
  place,
  to,
  agentWaits,
  onTo,
}: {
  place: Place;
  to: Addressee;
  agentWaits: boolean;
  onTo: (to: Addressee) => void;
}) {
  return (
    <div class="segments" role="group" aria-label="To whom">
      <button
        type="button"
        aria-pressed={to === 'agent'}
        disabled={agentWaits}
        title={agentWaits ? 'It is silent until the hand-back' : undefined}
        onClick={() => onTo('agent')}
      >
        To {place.agent}
      </button>
      <button type="button" aria-pressed={to === 'people'} onClick={() => onTo('people')}>
        To people
      </button>
    </div>
  );
}
