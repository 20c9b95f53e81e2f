// The hits of a search, and what a hit does not tell itself: its conversation, and of a result its tool.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { ask, idOf, pathOf, withQuery, type Message, type Place, type Schemas, type Session } from '../../api/client';
import { resultsOf, speakerOf } from '../../state/parts';
import { sessionHref } from '../../state/route';
import { FIELDS } from '../../state/session_pages';
import { channelOf, rowOf, titleOf } from '../../state/sessions';
import { channelName } from '../../ui/basics';
import { visible } from '../../ui/format';

export type Hits = Schemas['SearchPage'];
export type Hit = Hits['data'][number];

// A row of the results: where it leads, and which messages are beside it.
export interface Found {
  id: string;
  place: Place;
  href: string;
  beside: string; // the path of those messages
  seq: number | null; // of the hit among them; null: they are the newest, in reverse
}

const BESIDE = 21;
const around = (hit: Hit, limit: number) =>
  withQuery(pathOf(hit, '/messages'), { around: hit.id, topic: hit.topic, archive: hit.archive, limit });

export const foundHit = (hit: Hit): Found => ({
  id: `${hit.sessionId} ${hit.id}`,
  place: { agent: hit.agent, key: hit.key },
  href: sessionHref(hit, undefined, { topic: hit.topic, archive: hit.archive, at: hit.seq ?? undefined }),
  beside: around(hit, BESIDE),
  seq: hit.seq,
});
export const foundSession = (place: Place): Found => ({
  id: idOf(place),
  place,
  href: sessionHref(place),
  beside: withQuery(pathOf(place, '/messages'), { order: 'desc', limit: BESIDE }),
  seq: null,
});

// What was read for hits: sessions that are not in the list (null: not there), and names of tools.
const details = signal<ReadonlyMap<string, Session | string | null>>(new Map());

export const sessionOf = (place: Place) =>
  rowOf(place) ?? (details.value.get(idOf(place)) as Session | undefined) ?? null;
export const isArchived = (hit: Hit) => !!hit.archive || !!sessionOf(hit)?.archivedAt;

const readSession = (hit: Hit) => ask<Session>(pathOf(hit), { query: { fields: FIELDS } });
async function readTool(hit: Hit): Promise<string> {
  const page = await ask<Schemas['MessagePage']>(around(hit, 1));
  return resultsOf(page.data[0] as Message)[0]?.name ?? '';
}

// Reads what hits do not tell, one after the other and each once.
export function useDetails(hits: Hit[]) {
  useEffect(() => {
    let gone = false;
    const read = async (id: string, how: Promise<Session | string>) => {
      const detail = await how.catch(() => null);
      details.value = new Map(details.value).set(id, detail);
    };
    void (async () => {
      for (const hit of hits) {
        const id = foundHit(hit).id;
        if (!gone && !rowOf(hit) && !details.value.has(idOf(hit))) await read(idOf(hit), readSession(hit));
        if (!gone && hit.role === 'tool' && !details.value.has(id)) await read(id, readTool(hit));
      }
    })();
    return () => {
      gone = true;
    };
  }, [hits.map(hit => hit.id ?? hit.key).join()]);
}

// Who said it, and where: "support" and "to Oskar, Telegram"; "Hanne" and "in #returns, Slack".
export function told(hit: Hit): { who: string; where: string } {
  const session = sessionOf(hit),
    channel = channelOf(session);
  const title = session ? titleOf(session) : hit.key.replace(/^agent:[^:]*:/, '');
  const said = speakerOf({ from: hit.from } as Message);
  const isRoom = !!session && session.chatType !== 'direct' && !!session.chatType,
    room = session?.chatType === 'channel' && !title.startsWith('#') ? `#${title}` : title;
  const who =
    hit.role === 'tool'
      ? (details.value.get(foundHit(hit).id) as string) || 'tool'
      : said || (hit.role === 'assistant' ? hit.agent : hit.role === 'note' ? 'Note' : title);
  const where = isRoom
    ? `in ${room}`
    : hit.role === 'tool'
      ? `for ${title}`
      : hit.role === 'user'
        ? `to ${hit.agent}`
        : `to ${title}`;
  return { who: visible(who), where: [where, channel && channelName(channel), hit.topic].filter(Boolean).join(', ') };
}
