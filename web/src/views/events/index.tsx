// The raw stream: everything that happens, filtered here, paused, or begun again from an id.
import { useEffect, useRef, useState } from 'preact/hooks';
import { VList, type VListHandle } from 'virtua';
import { ask, type LiveEvent } from '../../api/client';
import { gap, listen } from '../../live/hub';
import { useActions } from '../../state/actions';
import { route, setQuery } from '../../state/route';
import { Copy, Head } from '../../ui/basics';
import { Icon } from '../../ui/icons';
import { Empty } from '../../ui/states';
import { doing } from '../../ui/toast';
import { Chips, Switch } from '../audit/switch';
import { epoch } from './epoch';
import { OneEvent } from './one_event';
import { EventRow, fits, type Row } from './row';

const KEPT = 5000;
let counter = 0;

export function EventsView() {
  const [rows, setRows] = useState<Row[]>([]),
    [paused, setPaused] = useState(false),
    [open, setOpen] = useState<Row | null>(null),
    [missed, setMissed] = useState(0);
  const list = useRef<VListHandle>(null),
    hold = useRef(paused),
    from = route.value.query.get('from') ?? '',
    filter = route.value.query.get('filter') ?? '';
  hold.current = paused;
  const add = (events: LiveEvent[]) =>
    setRows(old =>
      [
        ...old,
        ...events
          .filter(event => !event.seq || !old.length || event.seq > (old[old.length - 1]!.seq ?? 0))
          .map(event => ({ ...event, n: counter++ })),
      ].slice(-KEPT),
    );
  const resume = async (id: string) => {
    await doing('', async () => {
      const page = await ask<{ data: LiveEvent[]; gap?: { reason?: string } }>('/v1/events', {
        query: { poll: 1, ...(id ? { after: id } : { replay: 200 }) },
      });
      if (page.gap) gap.value = page.gap.reason ?? 'gap';
      setRows(page.data.map(event => ({ ...event, n: counter++ })));
    });
  };
  useEffect(() => {
    document.title = 'Audit · sessiond';
    void resume(from);
  }, [from]);
  useEffect(
    () =>
      listen(events => {
        if (hold.current) setMissed(n => n + events.length);
        else add(events);
      }),
    [],
  );
  const toggle = () => {
    if (paused) {
      setMissed(0);
      const last = rows[rows.length - 1];
      void resume(last?.seq ? `${epoch.value}-${last.seq}` : '');
    }
    setPaused(!paused);
  };
  useActions({ pause: toggle });
  const { actor = '', key = '' } = Object.fromEntries(route.value.query);
  const shown = rows.filter(
    event => (!key || event.key === key) && (!actor || event.actor === actor) && (!filter || fits(event, filter)),
  );
  useEffect(() => {
    if (!paused) list.current?.scrollToIndex(shown.length - 1, { align: 'end' });
  }, [shown.length, rows]);
  return (
    <section class="view" aria-label="Events">
      <Head title="Audit">
        <Switch />
        <button type="button" aria-pressed={paused} onClick={toggle}>
          <Icon name={paused ? 'play' : 'pause'} size={16} />
          {paused ? `Resume${missed ? ` (${missed} more)` : ''}` : 'Pause'}
        </button>
        <Copy
          value={() => `curl -sSN '${location.origin}/v1/events' -H "Authorization: Bearer $TOKEN"`}
          label="Copy as curl"
        />
      </Head>
      <div class="bar wrap">
        <input
          type="search"
          class="grow"
          placeholder="Filter: message  slack  -typing"
          aria-label="Filter events"
          value={filter}
          onInput={event => setQuery({ filter: event.currentTarget.value })}
        />
        <Chips names={['actor', 'key']} />
        <form
          class="row"
          onSubmit={event => {
            event.preventDefault();
            setQuery({ from: String(new FormData(event.currentTarget).get('from') ?? '') });
          }}
        >
          <input
            name="from"
            class="mono"
            defaultValue={from}
            placeholder={`${epoch.value || 'epoch'}-seq`}
            aria-label="Begin after this event id"
          />
          <button type="submit">Begin after</button>
        </form>
      </div>
      <div id="events" class="grow list-body">
        {shown.length ? (
          <VList ref={list} data={shown} tabIndex={0} aria-label="Events">
            {(event: Row) => <EventRow key={event.n} event={event} onOpen={() => setOpen(event)} />}
          </VList>
        ) : (
          <Empty title={rows.length ? 'No event fits the filter' : 'Nothing has happened yet'} icon="events" />
        )}
      </div>
      {open && <OneEvent event={open} onClose={() => setOpen(null)} />}
    </section>
  );
}
