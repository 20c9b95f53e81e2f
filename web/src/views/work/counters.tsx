// The six stages as counters in a row. Each shows only its own stage when it is pressed.
import { STAGES, type Item, type Stage } from '../../state/stages';
import { route, setQuery } from '../../state/route';
import { lasted, now, span } from '../../ui/format';
import type { Work } from './use_work';

export const STAGE_NAMES: Record<Stage, string> = {
  waiting: 'Waiting',
  working: 'Working',
  asking: 'Asking',
  sending: 'Sending',
  sent: 'Sent',
  failed: 'Failed',
};
const LONG_MS = 60_000; // nobody waits so long for a runner when all is well

const oldest = (items: readonly Item[]) => now.value - Math.min(...items.map(item => item.since));

function captionOf(stage: Stage, items: readonly Item[]): string {
  if (stage === 'sent') return 'since midnight';
  if (!items.length) return 'none';
  if (stage === 'asking') {
    const first = Math.min(...items.map(item => (item.stage === 'asking' ? item.approval.deadline : Infinity)));
    return `${lasted(first - now.value)} left`;
  }
  return stage === 'working' ? `longest ${lasted(oldest(items))}` : `oldest ${span(oldest(items))}`;
}

function toneOf(stage: Stage, items: readonly Item[]): string {
  if (!items.length) return '';
  if (stage === 'failed') return 'bad';
  if (stage === 'asking') return 'warn';
  return stage === 'waiting' && oldest(items.filter(item => item.stage === 'waiting' && !item.run.held)) > LONG_MS
    ? 'bad'
    : '';
}

export function Counters({ work, stages }: { work: Work; stages: Work['stages'] }) {
  const chosen = route.value.query.get('stage');
  return (
    <div class="counters" role="group" aria-label="The way of a message">
      {STAGES.map(stage => {
        const items = stages[stage];
        return (
          <button
            key={stage}
            type="button"
            class={`counter ${stage} ${toneOf(stage, items)}`}
            aria-pressed={chosen === stage}
            onClick={() => setQuery({ stage: chosen === stage ? null : stage })}
          >
            <span>{STAGE_NAMES[stage]}</span>
            <strong>
              {items.length}
              {work.isCut(stage) && '+'}
            </strong>
            <small>{captionOf(stage, items)}</small>
          </button>
        );
      })}
    </div>
  );
}
