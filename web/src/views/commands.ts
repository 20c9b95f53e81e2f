// Every command: its name, its keys, who may, and what it does. The keys, the palette and the help all read this list.
import { actionOf, type Act, type Action } from '../state/actions';
import { openThinking, openTools } from '../state/folds';
import { groups, needOf } from '../state/needs';
import { helping, jumping } from '../state/overlays';
import { go, hrefOf, openSession, sessionHref } from '../state/route';
import { list } from '../state/sessions';
import { nextTheme } from '../state/theme';
import { may, signOut } from '../state/who';
import { idOf } from '../api/client';
import { text } from '../ui/format';
import { toast } from '../ui/toast';
import { restOf } from './more';

export interface Command {
  name: string;
  keys: string[];
  where: 'Everywhere' | 'Rows' | 'Conversation' | 'Screens';
  does: Act | Action; // an action: what the view that is shown does
  icon?: string; // with one it stands in the palette
  may?: () => boolean; // whether the role allows it, and there is something to do it to
}

const screen = (view: string, name: string, ...keys: string[]): Command => ({
  name,
  keys,
  where: 'Screens',
  icon: view,
  does: () => go(hrefOf(view)),
  may: () => ['sessions', 'work'].includes(view) || restOf().some(([rest]) => rest === view),
});

const isOpen = () => !!openSession.value;
const filterField = () => document.querySelector<HTMLElement>('main input[type=search]');

// The field that narrows what is shown; where there is none, that of the sessions.
function focusFilter() {
  if (!filterField()?.offsetParent) go(hrefOf('sessions'));
  setTimeout(() => filterField()?.focus(), 30);
}

function nextNeedy() {
  const needy = (groups.value.find(group => group.title === 'Needs you')?.sessions ?? list.value).filter(needOf),
    place = openSession.value;
  const at = place ? needy.findIndex(session => idOf(session) === idOf(place)) : -1,
    next = needy[(at + 1) % needy.length];
  if (!next || (at >= 0 && needy.length === 1)) toast(next ? 'Nothing else needs you' : 'Nothing needs you');
  else go(sessionHref({ agent: text(next.agent), key: text(next.key) }));
}

export const COMMANDS: Command[] = [
  {
    name: 'Search, jump, do',
    keys: ['Mod+k'],
    where: 'Everywhere',
    does: () => {
      jumping.value = !jumping.value;
    },
  },
  { name: 'To the filter of the list', keys: ['/'], where: 'Everywhere', does: focusFilter },
  { name: 'Next that needs you', keys: ['n'], where: 'Everywhere', icon: 'clock', does: nextNeedy },
  {
    name: 'Keys',
    keys: ['?'],
    where: 'Everywhere',
    icon: 'help',
    does: () => {
      helping.value = true;
    },
  },
  { name: 'Back, after a field', keys: ['Escape'], where: 'Everywhere', does: 'back' },
  { name: 'Next', keys: ['j', 'ArrowDown'], where: 'Rows', does: 'next' },
  { name: 'Previous', keys: ['k', 'ArrowUp'], where: 'Rows', does: 'previous' },
  { name: 'Open it', keys: ['Enter'], where: 'Rows', does: 'open' },
  { name: 'Mark unread', keys: ['u'], where: 'Rows', icon: 'sessions', does: 'unread' },
  { name: 'Pause or resume the events', keys: [' '], where: 'Rows', does: 'pause' },
  { name: 'Turn before', keys: ['['], where: 'Conversation', does: 'turnBefore' },
  { name: 'Turn after', keys: [']'], where: 'Conversation', does: 'turnAfter' },
  { name: 'Write', keys: ['r'], where: 'Conversation', icon: 'send', does: 'write', may: () => may('send') },
  {
    name: 'Open or close tools',
    keys: ['e'],
    where: 'Conversation',
    icon: 'tool',
    may: isOpen,
    does: () => {
      openTools.value = !openTools.value;
    },
  },
  {
    name: 'Open or close thinking',
    keys: ['t'],
    where: 'Conversation',
    icon: 'layers',
    may: isOpen,
    does: () => {
      openThinking.value = !openThinking.value;
    },
  },
  { name: 'Model’s view', keys: ['m'], where: 'Conversation', icon: 'bot', does: 'modelView' },
  { name: 'Raw line of the message in focus', keys: ['J'], where: 'Conversation', does: 'raw' },
  { name: 'Details beside it', keys: ['i'], where: 'Conversation', icon: 'panel', does: 'details' },
  { name: 'Stop the agent', keys: ['s'], where: 'Conversation', icon: 'stop', does: 'stop', may: () => may('abort') },
  { name: 'Take over', keys: [], where: 'Conversation', icon: 'hand', does: 'takeOver', may: () => may('takeover') },
  { name: 'Hand back', keys: [], where: 'Conversation', icon: 'back', does: 'handBack', may: () => may('takeover') },
  { name: 'Copy as curl', keys: [], where: 'Conversation', icon: 'copy', does: 'copyCurl' },
  screen('sessions', 'Sessions', 'g c', '1'),
  screen('work', 'Work', 'g w', '2'),
  screen('policy', 'Policy', 'g p', '3'),
  screen('health', 'Health', 'g h', '4'),
  screen('audit', 'Audit', 'g a', '5'),
  screen('admin', 'Settings', 'g s', '6'),
  { name: 'Change colours', keys: [], where: 'Everywhere', icon: 'theme', does: nextTheme },
  { name: 'Sign out', keys: [], where: 'Everywhere', icon: 'out', does: () => void signOut() },
];

const actOf = ({ may, does }: Command) => (may && !may() ? null : typeof does === 'string' ? actionOf(does) : does);
export const isPossible = (command: Command) => !!actOf(command);
export const perform = (command: Command, event?: KeyboardEvent) => (actOf(command) ?? (() => false as const))(event);

export const bindings = Object.fromEntries(
  COMMANDS.flatMap(command => command.keys.map(key => [key, (event: KeyboardEvent) => perform(command, event)])),
);

const NAMES: Record<string, string> = {
  ' ': 'Space',
  Escape: 'Esc',
  ArrowDown: '↓',
  ArrowUp: '↑',
  'Mod+k': /^(Mac|iP)/.test(navigator.platform) ? '⌘K' : 'Ctrl K',
};
// A key as it is written on the keyboard.
export const keyName = (key: string) => NAMES[key] ?? key;
