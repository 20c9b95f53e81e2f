// How full the model's window is, and whether a compaction is due.
import { pathOf, withQuery, type Place, type Schemas } from '../../api/client';
import { Meter } from '../../ui/basics';
import { count, short } from '../../ui/format';
import { useAsk } from '../../ui/use';

const DUE: Record<string, string> = {
  due: 'A compaction is due',
  below_threshold: 'below the threshold of a compaction',
  too_few_messages: 'too few messages to compact',
  too_few_turns: 'too few turns to compact',
};

export function Gauge({ place, topic }: { place: Place; topic: string }) {
  const { data } = useAsk<Schemas['Context']>(
    withQuery(pathOf(place, '/context'), { topic }),
    event =>
      event.key === place.key &&
      event.agent === place.agent &&
      /^(message\.appended|context|compaction)/.test(event.type),
  );
  if (!data || !data.window) return null;
  const percent = Math.round(data.percent),
    label = `${count(data.used)} of ${count(data.window)} tokens (${data.source}): ${DUE[data.due.reason] ?? data.due.reason}`;
  return (
    <div class="gauge" title={label}>
      <span class="soft wide-only">Context</span>
      <Meter percent={percent} label={`The model's window is ${percent} % full. ${label}`} />
      <span class={`num ${percent >= 85 ? 'bad-text' : percent >= 65 ? 'warn-text' : 'soft'}`}>{percent} %</span>
      <span class="soft num wide-only">of {short(data.window)}</span>
    </div>
  );
}
