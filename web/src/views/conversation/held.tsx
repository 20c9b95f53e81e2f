// Says that a person speaks here in place of the agent, since when, and when the agent is next.
import { useState } from 'preact/hooks';
import type { Place } from '../../api/client';
import { isMine, type Takeover } from '../../state/takeover';
import { may } from '../../state/who';
import { clock, dayOf, now } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { TakeOver } from './take_over';

const when = (ms: number) => (dayOf(ms) === dayOf(now.value) ? clock(ms) : `${dayOf(ms)}, ${clock(ms)}`);

export function Held({ place, takeover, running }: { place: Place; takeover: Takeover; running: boolean }) {
  const [asking, setAsking] = useState(false),
    mine = isMine(takeover);
  return (
    <div class="held">
      <Icon name="hand" size={16} />
      <span role="status">
        <strong dir="auto">{mine ? 'You speak' : `${takeover.name} speaks`}</strong> here since {when(takeover.since)}.{' '}
        {place.agent} is asked nothing until {mine ? 'you hand back' : 'the hand-back'}, or until {when(takeover.until)}{' '}
        if nobody writes.
      </span>
      {!mine && may('takeover') && (
        <button type="button" class="primary small" onClick={() => setAsking(true)}>
          Take it over
        </button>
      )}
      {asking && <TakeOver place={place} from={takeover} running={running} onClose={() => setAsking(false)} />}
    </div>
  );
}
