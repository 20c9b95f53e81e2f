// The head of a conversation: whose it is and where, what the agent does, and what one may do about it.
import type { Place, Session } from '../../api/client';
import type { Conversation } from '../../state/conversation';
import { hrefOf } from '../../state/route';
import { titleOf } from '../../state/sessions';
import { Badge, Channel } from '../../ui/basics';
import { text } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Controls } from './controls';
import { Gauge } from './gauge';
import { Topics } from './topics';

export function Head({
  place,
  session,
  conversation,
  isThere,
  hasGauge,
}: {
  place: Place;
  session: Session | null;
  conversation: Conversation;
  isThere: boolean; // it is neither an archive nor gone
  hasGauge: boolean; // how full the model's window is
}) {
  const channel = text(session?.channel) || text(session?.lastChannel);
  return (
    <header class="conversation-head">
      <a class="back icon-only" href={hrefOf('sessions')} aria-label="Back to the sessions">
        <Icon name="back" />
      </a>
      <div class="titles">
        <h1 dir="auto">{session ? titleOf(session) : place.key.replace(/^agent:[^:]*:/, '')}</h1>
        <p class="soft cut" title={place.key}>
          {place.agent}
          {channel && ' on '}
          <Channel name={channel} />
        </p>
      </div>
      {!!session?.archivedAt && <Badge>archived</Badge>}
      <span class="spacer" />
      {isThere && session && <Controls place={place} session={session} conversation={conversation} />}
      {isThere && hasGauge && <Gauge place={place} topic={conversation.topic} />}
      <Topics place={place} topic={conversation.topic} />
    </header>
  );
}
