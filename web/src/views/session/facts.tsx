// What the daemon knows of a session and nobody edits.
import { pathOf, type Session } from '../../api/client';
import { Badge } from '../../ui/basics';
import { ago, count, moment, text } from '../../ui/format';
import { useAsk } from '../../ui/use';

interface Freshness {
  due: string | null;
  rule: { from: string; mode: string; idleMinutes?: number; atHour?: number };
  idleAt?: number;
  dailyAt?: number;
}

function ruleOf({ rule, due, idleAt, dailyAt }: Freshness): string {
  if (rule.mode === 'none') return 'never by itself';
  const when = due
    ? 'with the next message'
    : [idleAt && `idle at ${moment(idleAt)}`, dailyAt && `daily at ${moment(dailyAt)}`].filter(Boolean).join(', ');
  return `${when} (rule of the ${rule.from})`;
}

export function Facts({ session }: { session: Session }) {
  const place = { agent: text(session.agent), key: text(session.key) };
  const fresh = useAsk<Freshness>(session.archivedAt ? null : pathOf(place, '/freshness'));
  const totals = session.usageTotals;
  const facts: [string, unknown][] = [
    ['Session id', <span class="mono">{text(session.sessionId)}</span>],
    ['Revision', session.rev],
    ['Created', session.createdAt ? moment(Number(session.createdAt)) : null],
    ['Last change', session.updatedAt ? `${moment(Number(session.updatedAt))} (${ago(session.updatedAt)})` : null],
    ['Messages', count(Number(session.messageCount) || 0)],
    ['Entries', session.entryCount ? count(Number(session.entryCount)) : null],
    [
      'Tokens',
      totals?.total
        ? `${count(totals.total)} (${count(totals.input || 0)} in, ${count(totals.output || 0)} out)`
        : null,
    ],
    ['Runs', session.runCount],
    ['Compactions', session.compactionCount],
    ['Status', session.status ? <Badge>{text(session.status)}</Badge> : null],
    [
      'Replies go to',
      [text(session.lastChannel), text(session.lastTo), text(session.lastAccountId)].filter(Boolean).join(' · ') ||
        null,
    ],
    ['Reset', fresh.data ? ruleOf(fresh.data) : null],
    ['Allowed tools', Array.isArray(session.allowedTools) ? session.allowedTools.join(', ') : null],
  ];
  return (
    <dl class="facts-list">
      {facts
        .filter(([, value]) => value !== null && value !== undefined && value !== '')
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value as string}</dd>
          </div>
        ))}
    </dl>
  );
}
