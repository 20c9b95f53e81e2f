// A session in the list: who, where, what last, and whether something waits.
import type { Session } from '../api/client';
import { sessionHref } from '../state/route';
import { unread } from '../state/seen';
import { idOf, isRunning, titleOf } from '../state/sessions';
import { approvals, failed } from '../state/work';
import { Age, Badge, Channel } from '../ui/basics';
import { count, short, text } from '../ui/format';

export function SessionRow({ session, open }: { session: Session; open: boolean }) {
  const id = idOf(session),
    fresh = open ? 0 : unread(session),
    messages = Number(session.messageCount) || 0;
  const title = titleOf(session),
    first = text(session.firstMessage),
    below = first && first !== title ? first : text(session.key);
  const waits = approvals.value.some(one => idOf(one) === id),
    broken = failed.value.some(one => idOf(one) === id);
  const needs = Array.isArray(session.needs) && session.needs.length > 0;
  return (
    <div role="listitem">
      <a
        class="session"
        data-row={id}
        href={sessionHref({ agent: text(session.agent), key: text(session.key) })}
        aria-current={open ? 'true' : undefined}
        title={text(session.key)}
      >
        <span class="row">
          <span class={`title cut ${fresh ? 'fresh' : ''}`} dir="auto">
            {title}
          </span>
          {fresh > 0 && (
            <span class="count">
              {short(fresh)}
              <span class="sr-only"> unread</span>
            </span>
          )}
          <Age at={session.updatedAt} />
        </span>
        <span class="row sub">
          <Channel name={text(session.channel) || text(session.lastChannel)} />
          <span class="cut soft grow" dir="auto">
            {below}
          </span>
          {waits ? (
            <Badge tone="warn">approval</Badge>
          ) : broken ? (
            <Badge tone="bad">not delivered</Badge>
          ) : isRunning(session) ? (
            <Badge tone="info">running</Badge>
          ) : needs ? (
            <Badge>unanswered</Badge>
          ) : session.archivedAt ? (
            <Badge>archived</Badge>
          ) : (
            <span class="soft num" title={`${count(messages)} messages`}>
              {short(messages)}
            </span>
          )}
        </span>
      </a>
    </div>
  );
}
