// What the agent is asked after a hand-back: a choice for each different outcome, with the messages that it is about.
import type { Conversation } from '../../state/conversation';
import { partsOf } from '../../state/parts';

export type Choice = 'seen' | 'all' | 'none'; // `answered` of a hand-back
export type Outcomes = Partial<Record<Choice, string[]>>; // ids of the messages that the agent is asked about

const QUOTED = 3;

// The first words of messages, as the page has them.
function Quotes({ ids, conversation }: { ids: string[]; conversation: Conversation }) {
  const known = new Map(conversation.messages.value.map(message => [message.id, message]));
  const said = ids.slice(0, QUOTED).flatMap(id => {
    const message = known.get(id),
      part = message && partsOf(message).find(one => one.kind === 'text');
    return part ? [part.text.slice(0, 140)] : [];
  });
  const left = ids.length - said.length;
  return (
    <>
      {said.map((words, n) => (
        <q key={n} class="cut" dir="auto">
          {words}
        </q>
      ))}
      {left > 0 && (
        <span class="soft">{said.length ? `and ${left} more` : left === 1 ? '1 message' : `${left} messages`}</span>
      )}
    </>
  );
}

// What is sent for a choice: with nothing left to ask about, "everything is answered" is what `seen` means.
export function currentOf({ seen = [], none = [] }: Outcomes, chosen: Choice): Choice {
  if (chosen === 'all' && !seen.length) return 'seen';
  return chosen === 'none' && none.length <= seen.length ? 'seen' : chosen;
}

export function Choices({
  conversation,
  whose,
  outcomes,
  chosen,
  onChoose,
}: {
  conversation: Conversation;
  whose: string;
  outcomes: Outcomes;
  chosen: Choice;
  onChoose: (choice: Choice) => void;
}) {
  const { agent } = conversation.place,
    { seen, none } = outcomes;
  if (!seen || !none) return <p class="soft">Asking what is left to answer…</p>;
  const titles: [Choice, string][] = [];
  if (seen.length) titles.push(['seen', `${agent} answers what came after ${whose} last message`]);
  if (none.length > seen.length) titles.push(['none', `${agent} answers everything that came since the takeover`]);
  if (!titles.length) return <p>Nothing is left to answer. {agent} waits for the next message.</p>;
  titles.push([seen.length ? 'all' : 'seen', `Everything is answered, ${agent} waits for the next message`]);
  const current = currentOf(outcomes, chosen);
  return (
    <fieldset class="choices">
      <legend>What is still to be answered?</legend>
      {titles.map(([choice, title]) => (
        <label key={choice} class="choice">
          <input
            type="radio"
            name="answered"
            value={choice}
            checked={choice === current}
            onChange={() => onChoose(choice)}
          />
          <span>
            <strong>{title}</strong>
            <Quotes ids={choice === 'all' ? [] : (outcomes[choice] ?? [])} conversation={conversation} />
          </span>
        </label>
      ))}
    </fieldset>
  );
}
