// Search over all messages that the token sees, the newest first. The words stand in the address.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, Refusal, withQuery, type Place } from '../api/client';
import { route, sessionHref, setQuery } from '../state/route';
import { Age, Badge, Copy, Head } from '../ui/basics';
import { Empty, Loading, Trouble } from '../ui/states';
import { useAsk, useLater } from '../ui/use';

interface Hit {
  agent: string;
  key: string;
  sessionId: string;
  topic?: string;
  archive?: string;
  seq: number | null;
  id: string | null;
  timestamp: number;
  role: string;
  snippet: string;
  ranges: [number, number][]; // in code points of the snippet
}
interface Hits {
  data: Hit[];
  page: { next: string | null; hasMore: boolean };
  partial: boolean;
}

const placeOf = (hit: Hit): Place => ({ agent: hit.agent, key: hit.key });
const hrefOf = (hit: Hit) =>
  sessionHref(placeOf(hit), undefined, {
    topic: hit.topic,
    archive: hit.archive,
    at: hit.seq ?? undefined,
  });

// The snippet with the words marked, as nodes: what people wrote is never HTML.
function Marked({ snippet, ranges }: { snippet: string; ranges: [number, number][] }) {
  const points = [...snippet];
  const text = (from: number, to?: number) => points.slice(from, to).join('');
  let end = 0;
  const parts = ranges.map(([at, length], n) => {
    const before = text(end, at);
    end = at + length;
    return [before, <mark key={n}>{text(at, end)}</mark>];
  });
  return (
    <>
      {parts}
      {text(end)}
    </>
  );
}

function HitRow({ hit }: { hit: Hit }) {
  return (
    <li>
      <a class="hit" href={hrefOf(hit)}>
        <span class="row">
          <Badge>{hit.role}</Badge>
          <span class="cut grow soft" dir="auto">
            {hit.key.replace(/^agent:[^:]*:/, '')}
            {hit.topic && ` · ${hit.topic}`}
          </span>
          {hit.archive && <Badge>archived</Badge>}
          <Age at={hit.timestamp} />
        </span>
        <p dir="auto">
          <Marked snippet={hit.snippet} ranges={hit.ranges} />
        </p>
      </a>
    </li>
  );
}

// A phrase that is still being typed ends where the text ends.
const closed = (q: string) => ((q.match(/"/g)?.length ?? 0) % 2 ? q + '"' : q);

export function SearchView() {
  const q = route.value.query.get('q') ?? '',
    [typed, setTyped] = useState(q),
    later = useLater(typed, 180);
  const [more, setMore] = useState<Hits | null>(null),
    field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = 'Search · sessiond';
    if (!q) field.current?.focus();
  }, []);
  useEffect(() => {
    if (later !== q) setQuery({ q: later || null });
    setMore(null);
  }, [later]);
  const asked = closed(q);
  const path = /[^\s"]/.test(q) ? withQuery('/v1/search', { q: asked, limit: 50 }) : null;
  const { data, error, loading, again } = useAsk<Hits>(path, event => !more && event.type === 'message.appended');
  const off = error instanceof Refusal && error.status === 404;
  const hits = [...(data?.data ?? []), ...(more?.data ?? [])],
    next = more ? more.page.next : data?.page.next;
  const readMore = () =>
    void ask<Hits>(withQuery('/v1/search', { q: asked, limit: 50, cursor: next })).then(
      page => setMore({ ...page, data: [...(more?.data ?? []), ...page.data] }),
      () => {
        setMore(null); // the cursor is of an index that is gone: from the newest again
        again();
      },
    );
  return (
    <section class="view" aria-label="Search">
      <Head title="Search">
        <Copy
          value={() =>
            `curl -sSG '${location.origin}/v1/search' --data-urlencode 'q=${asked.replaceAll("'", "'\\''")}' -H "Authorization: Bearer $TOKEN"`
          }
          label="Copy as curl"
        />
      </Head>
      <div class="bar">
        <input
          type="search"
          class="grow"
          value={typed}
          ref={field}
          placeholder={'Words that must all occur; "a phrase"'}
          aria-label="Search messages"
          onInput={event => setTyped(event.currentTarget.value)}
        />
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Results">
        {error && !off ? (
          <Trouble error={error} again={again} />
        ) : !path ? (
          <Empty title="Search every message" icon="search">
            What people, agents and tools said, and the names of sessions.
          </Empty>
        ) : off ? (
          <Empty title="Search is switched off" icon="search">
            The configuration has <code>search.enabled: false</code>.
          </Empty>
        ) : loading && !data ? (
          <Loading />
        ) : hits.length ? (
          <ul class="hits">
            {hits.map((hit, n) => (
              <HitRow key={n} hit={hit} />
            ))}
          </ul>
        ) : (
          <Empty title="Nothing found" icon="search">
            No message has all of these words.
          </Empty>
        )}
        {data?.partial && (
          <p class="soft pad">Not everything was looked at: the index is not complete, or the search took too long.</p>
        )}
        {next && (
          <p class="pad">
            <button type="button" onClick={readMore}>
              Older results
            </button>
          </p>
        )}
      </div>
    </section>
  );
}
