// The keys.
import { signal } from '@preact/signals';
import { Dialog } from '../ui/dialog';

export const helping = signal(false);
const KEYS: [string, string][] = [
  ['/', 'Search'],
  ['1 … 6', 'Sessions, Work, Events, Policy, Health, Admin'],
  ['j  k  ↓  ↑', 'Next, previous session'],
  ['Enter', 'Open it'],
  ['Esc', 'Out of a field, then back to the list'],
  ['m', 'What the model sees, beside the conversation'],
  ['s', 'Stop what the agent does in the open conversation'],
  ['Space', 'Pause or resume the raw events'],
  ['Enter', 'In the field: send. Shift Enter: a new line'],
  ['?', 'This help'],
];

export function Help() {
  if (!helping.value) return null;
  return (
    <Dialog
      title="Keys"
      onClose={() => {
        helping.value = false;
      }}
    >
      <dl class="keys">
        {KEYS.map(([key, does]) => (
          <div key={key + does}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <p class="soft">
        Every view, session, topic, message and event has an address of its own: copy it from the browser.
      </p>
    </Dialog>
  );
}
