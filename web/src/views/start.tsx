// Where no conversation is open: what one can do from here, for somebody who has not seen it before.
import { groups } from '../state/needs';
import { hrefOf, sessionHref } from '../state/route';
import { text } from '../ui/format';
import { Icon } from '../ui/icons';
import { restOf } from './more';

interface Step {
  icon: string;
  name: string;
  says: string;
  href: string;
}

function steps(): Step[] {
  const needy = groups.value.find(group => group.title === 'Needs you')?.sessions ?? [],
    first = needy[0],
    seen = new Set(restOf().map(([view]) => view));
  const all: (Step | false | undefined)[] = [
    first && {
      icon: 'hand',
      name: needy.length === 1 ? 'One conversation needs you' : `${needy.length} conversations need you`,
      says: 'Open the most urgent one: answer it, take it over, or allow what its agent asks for.',
      href: sessionHref({ agent: text(first.agent), key: text(first.key) }),
    },
    {
      icon: 'work',
      name: 'Follow a message',
      says: 'From the question that waits for a runner to the answer that is sent.',
      href: hrefOf('work'),
    },
    seen.has('policy') && {
      icon: 'policy',
      name: 'Try a rule',
      says: 'See where the agent may write, and what a change would do, before it is saved.',
      href: hrefOf('policy'),
    },
    seen.has('health') && {
      icon: 'health',
      name: 'See how the daemon is',
      says: 'What is wrong in words, and the last hour as charts.',
      href: hrefOf('health'),
    },
  ];
  return all.filter(step => !!step);
}

export function Start() {
  return (
    <div class="start">
      <h2>Choose a session</h2>
      <p class="soft">
        Its conversation opens here. <kbd>j</kbd> and <kbd>k</kbd> move, <kbd>?</kbd> shows all keys.
      </p>
      <ul>
        {steps().map(({ icon, name, says, href }) => (
          <li key={name}>
            <a class="card row" href={href}>
              <Icon name={icon} size={18} />
              <span>
                <strong>{name}</strong>
                <span class="soft">{says}</span>
              </span>
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}
