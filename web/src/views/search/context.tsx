// The messages around a hit, as people left them, the hit marked.
import { useEffect, useRef } from 'preact/hooks';
import type { Message, Schemas } from '../../api/client';
import { whereOf } from '../../state/find_sessions';
import { titleOf } from '../../state/sessions';
import { Loading, Trouble } from '../../ui/states';
import { useAsk } from '../../ui/use';
import { itemsOf, type Item } from '../conversation/items';
import { Row } from '../conversation/row';
import { sessionOf, type Found } from './hits';

// Returns whether the hit stands in it: the result of a tool stands in the message that called it.
const holds = (item: Item, found: Found) =>
  ('message' in item && item.message.seq === found.seq) ||
  (item.kind === 'message' && [...item.results.values()].some(result => result.seq === found.seq));

const inOrder = (page: Message[], { seq }: Found) => (seq === null ? page.toReversed() : page);

export function Context({ found }: { found: Found }) {
  const session = sessionOf(found.place),
    body = useRef<HTMLDivElement>(null);
  const { data, error, again } = useAsk<Schemas['MessagePage']>(found.beside);
  useEffect(() => {
    const last = body.current?.lastElementChild;
    if (found.seq === null) last?.scrollIntoView({ block: 'end' });
    else body.current?.querySelector('.marked')?.scrollIntoView({ block: 'center' });
  }, [data]);
  return (
    <section class="hit-context" aria-label="Around it">
      <header class="conversation-head">
        <h1 class="cut grow" dir="auto">
          {session ? titleOf(session) : ''}
        </h1>
        <span class="soft small cut">{session && whereOf(session)}</span>
        <a class="button" href={found.href}>
          Open <kbd>⏎</kbd>
        </a>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Messages around it" ref={body}>
        {error ? (
          <Trouble error={error} again={again} />
        ) : data ? (
          itemsOf(inOrder(data.data as Message[], found)).map(item => (
            <Row key={item.id} item={item} agent={found.place.agent} marked={holds(item, found)} />
          ))
        ) : (
          <Loading />
        )}
      </div>
    </section>
  );
}
