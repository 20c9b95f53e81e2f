// What was found: conversations, then messages, the newest first.
import type { ComponentChildren } from 'preact';
import type { Session } from '../../api/client';
import { count } from '../../ui/format';
import { Empty, Loading, Trouble } from '../../ui/states';
import { HitRow } from './hit_row';
import { foundHit, foundSession } from './hits';
import type { useSearch } from './read';
import { SessionHit } from './session_hit';

export const placeOf = (session: Session) => ({ agent: String(session.agent), key: String(session.key) });

const Head = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <div class="group-head">
    <h2>
      {title} <span class="soft num">{children}</span>
    </h2>
  </div>
);

interface Shown {
  search: ReturnType<typeof useSearch>;
  chosen: string;
  beside: boolean;
  onChoose: (id: string) => void;
}

function Lists({ search: { sessions, hits, readMore }, chosen, ...row }: Shown) {
  return (
    <>
      {sessions.length > 0 && (
        <>
          <Head title="Conversations">{count(sessions.length)}</Head>
          <ul class="hits">
            {sessions.map(session => {
              const found = foundSession(placeOf(session));
              return (
                <SessionHit
                  key={found.id}
                  session={session}

                  found={found}
                  chosen={found.id === chosen}
                  {...row}
                />
              );
            })}
          </ul>
        </>
      )}
      {hits.length > 0 && (
        <>
          <Head title="Messages">
            {count(hits.length)}
            {readMore && ' and more'}, newest first
          </Head>
          <ul class="hits">
            {hits.map(hit => {
              const found = foundHit(hit);
              return <HitRow key={found.id} hit={hit} found={found} chosen={found.id === chosen} {...row} />;
            })}
          </ul>
        </>
      )}
    </>
  );
}

export function Results(shown: Shown) {
  const { isAsked, isOff, error, loading, again, hits, sessions, isPartial, readMore } = shown.search;
  if (isOff)
    return (
      <Empty title="Search is switched off" icon="search">
        The configuration has <code>search.enabled: false</code>.
      </Empty>
    );
  if (error) return <Trouble error={error} again={again} />;
  if (!isAsked)
    return (
      <Empty title="Search every message" icon="search">
        What people, agents and tools said, and the names of sessions.
      </Empty>
    );
  return (
    <>
      {loading ? (
        <Loading />
      ) : hits.length || sessions.length ? (
        <Lists {...shown} />
      ) : (
        <Empty title="Nothing found" icon="search">
          No message has all of these words.
        </Empty>
      )}
      {isPartial && (
        <p class="soft pad">Not everything was looked at: the index is not complete, or the search took too long.</p>
      )}
      {readMore && (
        <p class="pad">
          <button type="button" onClick={readMore}>
            Older results
          </button>
        </p>
      )}
    </>
  );
}
