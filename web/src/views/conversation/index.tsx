// A session, opened: its conversation, its runs, what it is, its past.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { pathOf, withQuery, type Place, type Session } from '../../api/client';
import { useActions } from '../../state/actions';
import { Conversation } from '../../state/conversation';
import { go, hrefOf, route, sessionHref, setQuery } from '../../state/route';
import { look, markUnread } from '../../state/seen';
import { isRunning, rowOf, titleOf } from '../../state/sessions';
import { takeoverOf } from '../../state/takeover';
import { may } from '../../state/who';
import { copyText } from '../../ui/basics';
import { Icon } from '../../ui/icons';
import { Trouble } from '../../ui/states';
import { useAsk, useMedia } from '../../ui/use';
import { Details } from '../details';
import { History } from '../session/history';
import { SessionView } from '../session';
import { ApprovalSheet } from '../work/approval_sheet';
import { RunList } from '../work/run_list';
import { Composer } from './composer';
import { Head } from './head';
import { Held } from './held';
import { ModelView } from './model_view';
import { Thread } from './thread';
import { Undelivered } from './undelivered';

const TABS = [
  ['', 'Conversation'],
  ['runs', 'Runs'],
  ['session', 'Session'],
  ['history', 'History'],
] as const;

export function ConversationView({ place }: { place: Place }) {
  const { parts, query } = route.value,
    asked = parts[2] === 'a' ? (parts[3] ?? '') : '', // an approval that is looked at
    tab = asked ? '' : (parts[2] ?? ''),
    topic = query.get('topic') ?? '',
    llm = query.has('llm');
  const at = query.has('at') ? Number(query.get('at')) : null,
    archive = query.get('archive') ?? '';
  const conversation = useMemo(() => new Conversation(place, topic, archive), [place.agent, place.key, topic, archive]);
  useEffect(() => () => conversation.end(), [conversation]);
  const read = useAsk<Session>(
    archive ? null : pathOf(place),
    event =>
      event.key === place.key &&
      event.agent === place.agent &&
      /^(session|context|run)\./.test(event.type) &&
      event.type !== 'session.typing',
  );
  const row = rowOf(place),
    session = read.data ? ({ ...read.data, ...(row ? { messageCount: row.messageCount } : {}) } as Session) : row;
  useEffect(() => {
    if (row && document.visibilityState === 'visible') look(row);
  }, [row]);
  useEffect(() => {
    document.title = `${session ? titleOf(session) : place.key} · sessiond`;
  }, [session && titleOf(session), place.key]);
  const takeover = archive ? null : takeoverOf(session);
  const curl = () =>
    `curl -sS '${location.origin}${withQuery(pathOf(place, '/messages'), { order: 'desc', limit: 50, topic })}' -H "Authorization: Bearer $TOKEN"`;
  const isWide = useMedia('(min-width: 1400px)'),
    [chosen, setChosen] = useState<boolean | null>(null), // whether details are shown; null: when there is room
    canShow = tab === '' && !archive && !llm && !read.error,
    hasDetails = canShow && (chosen ?? isWide);
  const toList = () => go(hrefOf('sessions'));
  useActions({
    back: toList,
    modelView: tab === '' && !read.error && (() => setQuery({ llm: llm ? null : '1' })),
    details: canShow && (() => setChosen(!hasDetails)),
    copyCurl: () => void copyText(curl()),
    unread:
      !!row &&
      (() => {
        toList();
        markUnread(row);
      }),
  });
  return (
    <div class="conversation-place with-panel">
      <section class="conversation" aria-label="Conversation">
        <Head
          place={place}
          session={session}
          conversation={conversation}
          isThere={!archive && !read.error}
          hasGauge={!hasDetails}
        />
        <div class="tabs-row">
          <nav class="tabs" aria-label="Parts of the session">
            {TABS.map(([id, name]) => (
              <a
                key={id}
                href={sessionHref(place, id || undefined, topic ? { topic } : {})}
                aria-current={tab === id ? 'page' : undefined}
              >
                {name}
              </a>
            ))}
          </nav>
          <div class="view-tools">
            {tab === '' && !read.error && (
              <button
                type="button"
                aria-pressed={llm}
                aria-label="Model’s view"
                title="The branch that the model sees (m)"
                onClick={() => setQuery({ llm: llm ? null : '1' })}
              >
                <Icon name="bot" size={16} />
                {!hasDetails && <span class="wide-only">Model’s view</span>}
              </button>
            )}
            {canShow && (
              <button
                type="button"
                class="ghost icon-only"
                aria-pressed={hasDetails}
                aria-label="Details"
                title="Details beside it (i)"
                onClick={() => setChosen(!hasDetails)}
              >
                <Icon name="panel" size={18} />
              </button>
            )}
          </div>
        </div>
        {takeover && <Held place={place} takeover={takeover} running={!!session && isRunning(session)} />}
        {archive && (
          <p class="notice info">
            An archived transcript, read-only: <span class="mono">{archive}</span>{' '}
            <a href={sessionHref(place)}>Back to what is now</a>
          </p>
        )}
        {read.error && !archive && tab !== 'history' ? (
          <Trouble error={read.error} again={read.again} />
        ) : (
          <>
            {tab === '' && (
              <div class={`split ${llm ? 'with-llm' : ''}`}>
                <Thread conversation={conversation} at={at} />
                {llm && <ModelView place={place} topic={topic} />}
              </div>
            )}
            {tab === '' && !archive && <Undelivered place={place} />}
            {tab === '' && !archive && may('send') && !session?.archivedAt && (
              <Composer key={topic} place={place} session={session} conversation={conversation} />
            )}
            {tab === 'runs' && <RunList place={place} />}
            {tab === 'session' && session && <SessionView place={place} session={session} again={read.again} />}
            {tab === 'history' && <History place={place} />}
          </>
        )}
        {asked && <ApprovalSheet place={place} id={asked} conversation={conversation} />}
      </section>
      {hasDetails && session && (
        <Details conversation={conversation} session={session} onClose={() => setChosen(false)} />
      )}
    </div>
  );
}
