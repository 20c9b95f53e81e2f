// Finds sessions by title, channel and agent: those in memory at once, and a moment later those that the daemon finds.
import { idOf, withQuery, type Ask, type Schemas, type Session } from '../api/client';
import { channelName } from '../ui/basics';
import { text } from '../ui/format';
import { useAsk, useLater } from '../ui/use';
import { groups } from './needs';
import { FIELDS } from './session_pages';
import { channelOf, titleOf } from './sessions';

const LATER_MS = 150;

// "support on Telegram"
export const whereOf = (session: Session) =>
  text(session.agent) + (channelOf(session) ? ` on ${channelName(channelOf(session))}` : '');

// Returns whether every word occurs in the text, in any case.
export function hasWords(words: string, where: string): boolean {
  const all = where.toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every(word => all.includes(word));
}

export function useSessions(words: string, most: number, narrowed: Ask['query'] = {}): Session[] {
  const { agent, channel } = narrowed;
  const asked = useLater(words.trim(), LATER_MS);
  const path = asked ? withQuery('/v1/sessions', { ...narrowed, q: asked, limit: most, fields: FIELDS }) : null;
  const { data } = useAsk<Schemas['SessionList']>(path);
  const known = groups.value.flatMap(group => group.sessions),
    found = asked === words.trim() ? ((data?.data ?? []) as Session[]) : [];
  const fitting = known.filter(
    session =>
      (!agent || session.agent === agent) &&
      (!channel || channelOf(session) === channel) &&
      hasWords(words.trim(), `${titleOf(session)} ${whereOf(session)}`),
  );
  return [...new Map([...fitting, ...found].map(session => [idOf(session), session])).values()].slice(0, most);
}
