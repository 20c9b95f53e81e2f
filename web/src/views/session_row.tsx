// A session in the list: who and where, and what it needs, else how it began.
import { idOf, type Message, type Session } from '../api/client';
import { needOf } from '../state/needs';
import { speakerOf } from '../state/parts';
import { sessionHref } from '../state/route';
import { unread } from '../state/seen';
import { isRunning, titleOf } from '../state/sessions';
import { Age, Badge, Channel } from '../ui/basics';
import { ago, moment, now, short, span, text } from '../ui/format';
import { Icon } from '../ui/icons';

const plain = (markdown: string) => markdown.replace(/\*\*|`/g, '');
// Who said it, where that is not plain.
function speakerIn(session: Session, last: NonNullable<Session['lastMessage']>): string {
  if (last.role === 'assistant' && !last.author) return text(session.agent);
  return session.chatType === 'direct' && !last.author ? '' : speakerOf(last as Message);
}

// What happens now, else the last words.
function Line({ session }: { session: Session }) {
  const need = needOf(session),
    title = titleOf(session),
    first = text(session.firstMessage);
  if (need?.words)
    return (
      <span class={`cut grow need ${need.tone}-text`} dir="auto">
        <Icon name={need.icon} size={14} /> {need.words}
      </span>
    );
  if (isRunning(session))
    return (
      <span class="cut grow need info-text">
        <i class="spinner" aria-hidden="true" /> {text(session.agent)} is at work
      </span>
    );
  const last = session.lastMessage;
  return (
    <span class="cut soft grow" dir="auto">
      {last && <b>{speakerIn(session, last)} </b>}
      {last ? plain(last.text) : first && first !== title ? first : text(session.key)}
    </span>
  );
}

// What kind of chat it is.
export const kindOf = (session: Session) =>
  /:cron:/.test(text(session.key))
    ? 'clock'
    : ['direct', 'group', 'channel'].includes(text(session.chatType))
      ? text(session.chatType)
      : 'sessions';

// The time that counts: left to decide, waiting, or of the last change.
function When({ session }: { session: Session }) {
  const need = needOf(session);
  if (!need) return <Age at={session.updatedAt} />;
  const { until, since = 0, tone } = need;
  return (
    <span class={`${tone}-text num small`} title={until ? undefined : `Since ${moment(since)}`}>
      {until ? `${span(Math.max(0, until - now.value))} left` : ago(since) || '–'}
      {!need.words && <span class="sr-only"> unanswered</span>}
    </span>
  );
}

export function SessionRow({ session, open }: { session: Session; open: boolean }) {
  const fresh = open ? 0 : unread(session);
  return (
    <div role="listitem">
      <a
        class="session"
        data-row={idOf(session)}
        href={sessionHref({ agent: text(session.agent), key: text(session.key) })}
        aria-current={open ? 'true' : undefined}
        title={text(session.key)}
      >
        <span class="kind">
          <Icon name={kindOf(session)} size={17} />
        </span>
        <span class="row">
          <span class={`title cut ${fresh ? 'fresh' : ''}`} dir="auto">
            {titleOf(session)}
          </span>
          <Channel name={text(session.channel) || text(session.lastChannel)} />
          <When session={session} />
        </span>
        <span class="row sub">
          <Line session={session} />
          {!!session.archivedAt && <Badge>archived</Badge>}
          {fresh > 0 && (
            <span class="count">
              {short(fresh)}
              <span class="sr-only"> unread</span>
            </span>
          )}
        </span>
      </a>
    </div>
  );
}
