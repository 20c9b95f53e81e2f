// A session, opened: its conversation, its runs, what it is, its past.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { pathOf, withQuery, type Place, type Session } from '../../api/client';
import { Conversation } from '../../state/conversation';
import { hrefOf, route, sessionHref, setQuery } from '../../state/route';
import { look } from '../../state/seen';
import { isRunning, rowOf, titleOf } from '../../state/sessions';
import { takeoverOf } from '../../state/takeover';
import { may } from '../../state/who';
import { Badge, Channel, Copy } from '../../ui/basics';
import { text } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Trouble } from '../../ui/states';
import { useAsk, useKeys } from '../../ui/use';
import { History } from '../session/history';
import { SessionView } from '../session';
import { RunList } from '../work/run_list';
import { Composer } from './composer';
import { Controls } from './controls';
import { Gauge } from './gauge';
import { Held } from './held';
import { ModelView } from './model_view';
import { Thread } from './thread';
import { Topics } from './topics';
import { Undelivered } from './undelivered';

const TABS = [
  ['', 'Conversation'],
  ['runs', 'Runs'],
  ['session', 'Session'],
  ['history', 'History'],
] as const;

export function ConversationView({ place }: { place: Place }) {
  const { parts, query } = route.value,
    tab = parts[2] ?? '',
    topic = query.get('topic') ?? '',
    llm = query.has('llm');
  const at = query.has('at') ? Number(query.get('at')) : null,
    archive = query.get('archive') ?? '';
  const title = useRef<HTMLHeadingElement>(null);
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
  useKeys({
    Escape: () => {
      location.hash = hrefOf('sessions');
    },
    m: () => setQuery({ llm: llm ? null : '1' }),
  });
  const takeover = archive ? null : takeoverOf(session);
  const channel = text(session?.channel) || text(session?.lastChannel);
  const curl = () =>
    `curl -sS '${location.origin}${withQuery(pathOf(place, '/messages'), { order: 'desc', limit: 50, topic })}' -H "Authorization: Bearer $TOKEN"`;
  return (
    <section class="conversation" aria-label="Conversation">
      <header class="conversation-head">
        <a class="back icon-only" href={hrefOf('sessions')} aria-label="Back to the sessions">
          <Icon name="back" />
        </a>
        <div class="titles">
          <h1 ref={title} dir="auto">
            {session ? titleOf(session) : place.key.replace(/^agent:[^:]*:/, '')}
          </h1>
          <p class="soft cut" title={place.key}>
            {place.agent}
            {channel && ' on '}
            <Channel name={channel} />
          </p>
        </div>
        {!!session?.archivedAt && <Badge>archived</Badge>}
        <span class="spacer" />
        {!archive && !read.error && session && <Controls place={place} session={session} conversation={conversation} />}
        {!archive && !read.error && <Gauge place={place} topic={topic} />}
        <Topics place={place} topic={topic} />
        {tab === '' && !read.error && (
          <button
            type="button"
            aria-pressed={llm}
            title="The branch that the model sees (m)"
            onClick={() => setQuery({ llm: llm ? null : '1' })}
          >
            Model’s view
          </button>
        )}
        <span class="wide-only">
          <Copy value={curl} label="Copy as curl" />
        </span>
      </header>
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
    </section>
  );
}
