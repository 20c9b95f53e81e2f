// Beside a conversation: the turn, how full the model's window is, what the session has used, what waits, and what is allowed.
import { pathOf, withQuery, type Place, type Schemas, type Session } from '../../api/client';
import type { Conversation } from '../../state/conversation';
import { hrefOf } from '../../state/route';
import { Meter } from '../../ui/basics';
import { clock, cost, count, moment, short } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { Pairs, SidePanel } from '../../ui/side_panel';
import { useAsk } from '../../ui/use';
import type { Verdict } from '../conversation/addressee';
import { Turn } from './turn';
import { AllowedTools, Waiting } from './waiting';

const MICROCENTS = 100_000_000; // in a dollar

function Window({ place, topic }: { place: Place; topic: string }) {
  const { data } = useAsk<Schemas['Context']>(
    withQuery(pathOf(place, '/context'), { topic }),
    event => event.key === place.key && event.agent === place.agent && /^(message\.appended|context)/.test(event.type),
  );
  if (!data?.window) return null;
  return (
    <section aria-label="The model’s window">
      <h3 class="row">
        <span class="grow">The model’s window</span>
        <span class="soft num">
          {short(data.used)} of {short(data.window)}
        </span>
      </h3>
      <Meter percent={data.percent} label={`${Math.round(data.percent)} % full`} />
      <p class="soft">
        {data.due.compaction
          ? 'A compaction is due'
          : `${count(data.messages)} ${data.messages === 1 ? 'message' : 'messages'}${data.checkpoint ? ' since it was last compacted' : ''}, with those of tools`}
      </p>
    </section>
  );
}

function Used({ place, session }: { place: Place; session: Session }) {
  const { data } = useAsk<Session>(
    withQuery(pathOf(place), { fields: 'name', include: 'messageCounts' }),
    event => event.key === place.key && event.agent === place.agent && event.type === 'message.appended',
  );
  const said = data?.messageCounts,
    tokens = session.usageTotals,
    spent = Number(session.costMicrocents) / MICROCENTS,
    since = Number(session.sessionStartedAt) || Number(session.createdAt) || 0;
  const parts = said && [
    `${count(said.people)} of people`,
    `${count(said.agent)} of ${place.agent}`,
    said.team > 0 && `${count(said.team)} of the team`,
  ];
  return (
    <section aria-label="This session">
      <h3 class="row">
        <span class="grow">This session</span>
        {since > 0 && (
          <span class="soft" title={moment(since)}>
            since {new Date(since).toDateString() === new Date().toDateString() ? clock(since) : moment(since)}
          </span>
        )}
      </h3>
      <Pairs
        rows={[
          ['Messages', parts && `${parts.filter(Boolean).join(', ')}${said.more ? ' or more' : ''}`],
          ['Tokens', !!tokens?.total && `${short(tokens.input || 0)} in, ${short(tokens.output || 0)} out`],
          ['Cost', spent > 0 && cost(spent)],
          [
            'Turns',
            Number(session.turnCount) > 0 &&
              `${count(Number(session.turnCount))}${Number(session.turnCap) > 0 ? ` of ${count(Number(session.turnCap))}` : ''}`,
          ],
        ]}
      />
    </section>
  );
}

function MayWrite({ place }: { place: Place }) {
  const { data } = useAsk<Schemas['SessionPolicy']>(
    pathOf(place, '/send-policy'),
    event =>
      event.type === 'policy.changed' ||
      (event.type === 'session.updated' && event.key === place.key && event.agent === place.agent),
  );
  const verdict: Verdict | undefined = data?.effective;
  if (!verdict) return null;
  const denied = verdict.action === 'deny',
    by =
      verdict.source === 'rule'
        ? `rule ${Number(verdict.rule) + 1}`
        : verdict.source === 'session'
          ? 'this session'
          : 'the default';
  return (
    <section aria-label="May the agent write here?">
      <h3>May the agent write here?</h3>
      <p class="row">
        <span class={denied ? 'bad-text' : 'good-text'}>
          <Icon name={denied ? 'close' : 'check'} size={16} />
        </span>
        <span class="grow">
          {denied ? 'Denied' : 'Allowed'} by {by}
        </span>
        {verdict.source === 'rule' && <a href={hrefOf('policy', [], { rule: verdict.rule })}>Why</a>}
      </p>
    </section>
  );
}

export function Details({
  conversation,
  session,
  onClose,
}: {
  conversation: Conversation;
  session: Session;
  onClose: () => void;
}) {
  const { place, topic } = conversation;
  return (
    <SidePanel title="Details" onClose={onClose} quiet>
      <Turn conversation={conversation} />
      <Window place={place} topic={topic} />
      <Used place={place} session={session} />
      <Waiting conversation={conversation} />
      <MayWrite place={place} />
      <AllowedTools place={place} />
    </SidePanel>
  );
}
