// What a search finds: page after page of messages, and the conversations that are called so.
import { useState } from 'preact/hooks';
import { ask, Refusal, withQuery, type Ask } from '../../api/client';
import { useSessions } from '../../state/find_sessions';
import { useAsk } from '../../ui/use';
import { useDetails, type Hits } from './hits';

const MOST_SESSIONS = 5;

// A phrase that is still being typed ends where the text ends.
export const closed = (q: string) => ((q.match(/"/g)?.length ?? 0) % 2 ? q + '"' : q);
const isName = ({ role }: Hits['data'][number]) => role === 'name' || role === 'label';

export function useSearch(q: string, narrowed: Ask['query'] = {}) {
  const [read, setRead] = useState<{ path: string | null; page: Hits } | null>(null); // further pages, of this search only
  const query = { q: closed(q), limit: 50, ...narrowed },
    isAsked = /[^\s"]/.test(q);
  const path = isAsked ? withQuery('/v1/search', query) : null;
  const { data, error, loading, again } = useAsk<Hits>(path);
  const more = read?.path === path ? read.page : null;
  const all = [...(data?.data ?? []), ...(more?.data ?? [])],
    next = more ? more.page.next : data?.page.next;
  useDetails(all);
  const { agent, channel, from, role, since, archived } = narrowed;
  const isOfAll = isAsked && !from && !role && !since; // else only messages fit
  const sessions = useSessions(isOfAll ? q : '', MOST_SESSIONS, { agent, channel, archived });
  const readMore = () =>
    void ask<Hits>(withQuery('/v1/search', { ...query, cursor: next })).then(
      page => setRead({ path, page: { ...page, data: [...(more?.data ?? []), ...page.data] } }),
      () => {
        setRead(null); // the cursor is of an index that is gone: from the newest again
        again();
      },
    );
  return {
    isAsked,
    isOff: error instanceof Refusal && error.status === 404,
    error,
    loading: loading && !data,
    again,
    sessions: isOfAll ? sessions : [],
    hits: all.filter(hit => !isName(hit)),
    isPartial: !!data?.partial,
    readMore: next ? readMore : null,
  };
}
