// What the palette offers for some words, in groups: conversations, commands, and last the search of messages.
import { idOf, type Session } from '../api/client';
import { COMMANDS, isPossible, keyName, perform } from './commands';
import { kindOf } from './session_row';
import { searchable } from '../state/features';
import { hasWords, useSessions, whereOf } from '../state/find_sessions';
import { go, hrefOf, sessionHref } from '../state/route';
import { titleOf } from '../state/sessions';
import { text } from '../ui/format';

export interface Result {
  id: string;
  icon: string;
  name: string;
  detail?: string;
  key?: string;
  run: () => void;
}
export interface Group {
  title: string;
  results: Result[];
}

const MOST = 6;

const jumpTo = (session: Session): Result => ({
  id: idOf(session),
  icon: kindOf(session),
  name: titleOf(session),
  detail: whereOf(session),
  run: () => go(sessionHref({ agent: text(session.agent), key: text(session.key) })),
});

export function usePalette(words: string): Group[] {
  const said = words.trim(),
    sessions = useSessions(words, MOST);
  const commands = COMMANDS.filter(one => one.icon && hasWords(said, one.name) && isPossible(one));
  const results: Group[] = [
    { title: 'Conversations', results: sessions.map(jumpTo) },
    {
      title: 'Commands',
      results: commands.map(command => ({
        id: command.name,
        icon: command.icon!,
        name: command.name,
        key: command.keys[0] && keyName(command.keys[0]),
        run: () => void perform(command),
      })),
    },
    {
      title: 'Messages',
      results: searchable.value
        ? [
            {
              id: 'messages',
              icon: 'search',
              name: said ? `Search messages for “${said}”` : 'Search messages',
              run: () => go(hrefOf('search', [], { q: said })),
            },
          ]
        : [],
    },
  ];
  return results.filter(group => group.results.length);
}
