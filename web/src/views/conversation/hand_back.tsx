// Hands a conversation back to its agent. What each choice would do is asked first, with dryRun.
import { useEffect, useState } from 'preact/hooks';
import { pathOf, post, type Place } from '../../api/client';
import { listen } from '../../live/hub';
import type { Conversation } from '../../state/conversation';
import { isMine, type Takeover } from '../../state/takeover';
import { Dialog } from '../../ui/dialog';
import { doing } from '../../ui/toast';
import { Choices, currentOf, type Choice, type Outcomes } from './hand_back_choices';

const SAYS = /^(message\.|run\.(queued|started|finished))/;
const PAUSE_MS = 1000;

// What each choice would do now. Asked again, at most once a second, when something is said.
function useOutcomes(place: Place, force: boolean): Outcomes {
  const [outcomes, setOutcomes] = useState<Outcomes>({});
  useEffect(() => {
    let turn = 0,
      waiting: ReturnType<typeof setTimeout> | 0 = 0;
    const read = () => {
      const mine = ++turn;
      waiting = 0;
      for (const answered of ['seen', 'none'] as const)
        void post<{ waiting: string[] } | null>(pathOf(place, '/handback'), { answered, force, dryRun: true }).then(
          outcome => {
            if (mine === turn && outcome) setOutcomes(old => ({ ...old, [answered]: outcome.waiting }));
          },
          () => {},
        );
    };
    read();
    const end = listen(events => {
      if (events.some(event => event.key === place.key && event.agent === place.agent && SAYS.test(event.type)))
        waiting ||= setTimeout(read, PAUSE_MS);
    });
    return () => {
      turn++;
      clearTimeout(waiting || undefined);
      end();
    };
  }, [place.agent, place.key, force]);
  return outcomes;
}

export function HandBack({
  conversation,
  takeover,
  onClose,
}: {
  conversation: Conversation;
  takeover: Takeover;
  onClose: () => void;
}) {
  const { place } = conversation,
    [answered, setAnswered] = useState<Choice>('seen'),
    [note, setNote] = useState(''),
    [busy, setBusy] = useState(false);
  const force = !isMine(takeover),
    outcomes = useOutcomes(place, force);
  const give = async () => {
    setBusy(true);
    const body = { answered: currentOf(outcomes, answered), force, ...(note.trim() ? { note } : {}) };
    if (await doing(`${place.agent} speaks here again`, () => post(pathOf(place, '/handback'), body))) onClose();
    setBusy(false);
  };
  return (
    <Dialog title={`Hand back to ${place.agent}`} onClose={onClose}>
      <form
        onSubmit={event => {
          event.preventDefault();
          void give();
        }}
      >
        {force && <p class="notice warn">{takeover.name} speaks here, not you.</p>}
        <Choices
          conversation={conversation}
          whose={force ? `${takeover.name}’s` : 'my'}
          outcomes={outcomes}
          chosen={answered}
          onChoose={setAnswered}
        />
        <label class="field">
          <span>A note for {place.agent}, which people do not see</span>
          <textarea
            rows={2}
            maxLength={1000}
            value={note}
            dir="auto"
            placeholder="What was agreed, what is left to do"
            onInput={event => setNote(event.currentTarget.value)}
          />
        </label>
        <footer class="form-foot">
          <button type="button" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" class="primary" disabled={busy}>
            Hand back
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
