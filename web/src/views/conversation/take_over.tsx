// Asks for what a takeover needs: a name, how long, and whether what runs now is stopped.
import { useState } from 'preact/hooks';
import { pathOf, post, Refusal, type Place } from '../../api/client';
import { keepName, myName } from '../../state/name';
import type { Takeover } from '../../state/takeover';
import { Field } from '../../ui/basics';
import { Dialog } from '../../ui/dialog';
import { moment } from '../../ui/format';
import { toast } from '../../ui/toast';

const HOUR = 3_600_000;
const TIMES = [
  [HOUR / 2, '30 minutes'],
  [4 * HOUR, '4 hours'],
  [24 * HOUR, 'a day'],
  [168 * HOUR, 'a week'],
] as const;

interface Holder {
  name: string;
  until: number;
}

// `from`: the person who speaks there now.
export function TakeOver({
  place,
  from = null,
  running,
  onClose,
}: {
  place: Place;
  from?: Holder | null;
  running: boolean;
  onClose: () => void;
}) {
  const [name, setName] = useState(myName.value),
    [forMs, setForMs] = useState<number>(4 * HOUR),
    [stop, setStop] = useState(false),
    [holder, setHolder] = useState(from),
    [busy, setBusy] = useState(false);
  const take = async () => {
    setBusy(true);
    try {
      const body = { name, forMs, stop, ...(holder ? { force: true } : {}) };
      const { takeover } = await post<{ takeover: Takeover }>(pathOf(place, '/takeover'), body);
      keepName(takeover.name);
      toast(`You speak here in place of ${place.agent}`);
      onClose();
    } catch (error) {
      if (error instanceof Refusal && error.code === 'taken_over')
        setHolder({ name: String(error.body.name), until: Number(error.body.until) });
      else toast((error as Error).message, 'bad');
    }
    setBusy(false);
  };
  return (
    <Dialog title={`Take over from ${holder?.name ?? place.agent}`} onClose={onClose}>
      <form
        onSubmit={event => {
          event.preventDefault();
          void take();
        }}
      >
        <p>
          You answer in its place. Messages of people are kept and wait; {place.agent} is asked about those that you
          have not answered when you hand back.
        </p>
        <div class="fields">
          <Field label="Your name, as the agent is told">
            <input
              required
              maxLength={100}
              value={name}
              dir="auto"
              autofocus
              onInput={event => setName(event.currentTarget.value)}
            />
          </Field>
          <Field label="Handed back by itself after your last message">
            <select value={forMs} onChange={event => setForMs(Number(event.currentTarget.value))}>
              {TIMES.map(([ms, words]) => (
                <option key={ms} value={ms}>
                  {words}
                </option>
              ))}
            </select>
          </Field>
        </div>
        {running && (
          <label class="check wrapped">
            <input type="checkbox" checked={stop} onChange={event => setStop(event.currentTarget.checked)} />
            Stop what {place.agent} does now. Otherwise it ends, and its answer is sent, unless you write first.
          </label>
        )}
        {holder && (
          <p class="notice warn" role="alert">
            {holder.name} speaks here until {moment(holder.until)}, and can write no more when you have taken over.
          </p>
        )}
        <footer class="form-foot">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={busy || !name.trim()}>
            {holder ? `Take over from ${holder.name}` : 'Take over'}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
