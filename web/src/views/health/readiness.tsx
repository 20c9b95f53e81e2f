// Whether the daemon is ready, with each remark as a sentence, and beside it the small facts.
import { count, now, span } from '../../ui/format';
import { Icon } from '../../ui/icons';
import type { MetricsHistory } from './history';
import { remarksOf, type Ready } from './remarks';

const MOST = 12; // remarks that are shown

function titleOf(ready: boolean, remarks: number): string {
  const state = ready ? 'Ready' : 'Not ready';
  return remarks ? `${state}, with ${remarks} ${remarks === 1 ? 'remark' : 'remarks'}` : state;
}

export function Readiness({ ready, history }: { ready: Ready; history: MetricsHistory | null }) {
  const remarks = remarksOf(ready, history),
    isReady = ready.status === 'ready',
    { journalCheck: check, search } = ready;
  return (
    <section class="readiness" aria-label="Readiness">
      <span class={isReady ? 'good-text' : 'bad-text'}>
        <Icon name={isReady ? 'check' : 'warn'} size={18} />
      </span>
      <div>
        <h2>{titleOf(isReady, remarks.length)}</h2>
        <ul>
          {remarks.slice(0, MOST).map(({ link, href, text, bad }) => (
            <li key={`${link} ${text}`} class={bad ? 'bad-text' : ''} dir="auto">
              {href ? <a href={href}>{link}</a> : link} {text}
            </li>
          ))}
          {remarks.length > MOST && <li>And {remarks.length - MOST} more.</li>}
        </ul>
        {check && (
          <p class="soft">
            The journal is being checked: {check.segments} of {check.ofSegments} segments.
          </p>
        )}
        {search?.state === 'reading' && <p class="soft">Search is still reading and does not find everything yet.</p>}
      </div>
    </section>
  );
}

export function Facts({ history, version }: { history: MetricsHistory; version?: string }) {
  const newest = (name: 'connections' | 'streams' | 'runsActive' | 'runsQueued') => history[name].at(-1) ?? 0;
  const facts: [string, string][] = [
    ['Up', span(now.value - history.startedAt)],
    ['Version', version ?? ''],
    ['Connections', count(newest('connections'))],
    ['Streams', count(newest('streams'))],
    ['Runs', `${count(newest('runsActive'))} active, ${count(newest('runsQueued'))} waiting`],
  ];
  return (
    <dl class="health-facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
