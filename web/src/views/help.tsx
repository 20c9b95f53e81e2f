// The keys, as the list of commands has them, and whether single letters are keys.
import { openSession } from '../state/route';
import { helping } from '../state/overlays';
import { setSingleKeys, singleKeys } from '../state/single_keys';
import { Dialog } from '../ui/dialog';
import { COMMANDS, keyName, type Command } from './commands';

const PLACES = ['Everywhere', 'Screens', 'Rows', 'Conversation'] as const;
// What is in no conversation now may be in one later.
const isShown = ({ where, keys, may }: Command) =>
  keys.length > 0 && (!may || may() || (where === 'Conversation' && !openSession.value));

function Keys({ where }: { where: Command['where'] }) {
  const lines = COMMANDS.filter(command => command.where === where && isShown(command));
  return (
    <section>
      <h3>{where}</h3>
      <dl class="keys">
        {lines.map(({ name, keys }) => (
          <div key={name}>
            <dt>
              {keys.map(key => (
                <kbd key={key}>{keyName(key)}</kbd>
              ))}
            </dt>
            <dd>{name}</dd>
          </div>
        ))}
        {where === 'Conversation' && (
          <div>
            <dt>
              <kbd>Enter</kbd>
            </dt>
            <dd>In the field: send. Shift Enter begins a line</dd>
          </div>
        )}
      </dl>
    </section>
  );
}

export function Help() {
  if (!helping.value) return null;
  return (
    <Dialog
      title="Keys"
      look="wide"
      onClose={() => {
        helping.value = false;
      }}
    >
      <div class="key-groups">
        {PLACES.map(where => (
          <Keys key={where} where={where} />
        ))}
      </div>
      <label class="check wrapped">
        <input
          type="checkbox"
          role="switch"
          checked={singleKeys.value}
          onChange={event => setSingleKeys(event.currentTarget.checked)}
        />
        Single letters, digits and signs are keys. Without them, {keyName('Mod+k')} has the commands.
      </label>
      <p class="soft">
        Every view, session, topic, message and event has an address of its own: copy it from the browser.
      </p>
    </Dialog>
  );
}
