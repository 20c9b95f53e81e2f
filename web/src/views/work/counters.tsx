// The six stages as counters in a row. Each shows only its own stage when it is pressed.
import { UNCLAIMED_MS } from '../../state/needs';
import { STAGES, type Item, type Stage } from '../../state/stages';
import { route, setQuery } from '../../state/route';
import { lasted, now, seconds, span } from '../../ui/format';
import type { Work } from './use_work';

export const STAGE_NAMES: Record<Stage, string> = {
  waiting: 'Waiting',
  working: 'Working',
  asking: 'Asking',
  sending: 'Sending',
  sent: 'Sent',
  failed: 'Failed',
};

const oldest = (items: readonly Item[]) => now.value - Math.min(...items.map(item => item.since));

// Of a list that is cut the oldest are not known.
function captionOf(stage: Stage, items: readonly Item[], isCut: boolean): string {
  if (stage === 'sent') return 'since midnight';
  if (isCut) return 'the newest';
  if (!items.length) return 'none';
  if (stage === 'asking') {
    const first = Math.min(...items.map(item => (item.stage === 'asking' ? item.approval.deadline : Infinity)));
    return `${lasted(first - seconds.value)} left`;
  }
  return stage === 'working' ? `longest ${lasted(oldest(items))}` : `oldest ${span(oldest(items))}`;
}

function toneOf(stage: Stage, items: readonly Item[]): string {
  if (!items.length) return '';
  if (stage === 'failed') return 'bad';
  if (stage === 'asking') return 'warn';
  const isUnclaimed = (item: Item) =>
    item.stage === 'waiting' && !item.run.held && !item.isBehind && now.value - item.since > UNCLAIMED_MS;
  return stage === 'waiting' && items.some(isUnclaimed) ? 'bad' : '';
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
            <small>{captionOf(stage, items, work.isCut(stage))}</small>
          </button>
        );
      })}
    </div>
  );
}
