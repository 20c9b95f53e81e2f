// The audit log in words: every write and every refusal, the newest first. What is shown and the open line stand in the address.
import { useActions } from '../../state/actions';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { go, hrefOf, route } from '../../state/route';
import { Head } from '../../ui/basics';
import { saveAs } from '../../ui/download';
import { Icon } from '../../ui/icons';
import { Empty, Loading, Trouble } from '../../ui/states';
import { useAsk } from '../../ui/use';
import { Bar } from './bar';
import { fits, fold, idOfLine, wantedOf, type Row } from './lines';
import { Panel } from './panel';
import { Switch } from './switch';
import { Table } from './table';
import type { Line } from './words';

const MOST = 1000; // the daemon gives no more
export const lineHref = (line: Line | null) =>
  hrefOf('audit', [], { ...Object.fromEntries(route.value.query), line: line && idOfLine(line) });

export function RequestsView() {
  const { data, error, again } = useAsk<{ data: Line[] }>(`/v1/admin/audit?limit=${MOST}`);
  const { query } = route.value,
    wanted = wantedOf(query),
    open = query.get('line');
  const [last, setLast] = useState(''); // that was open, and gets the focus back
  const lines = useMemo(() => [...(data?.data ?? [])].sort((a, b) => b.time - a.time), [data]);
  const shown = lines.filter(line => fits(line, wanted)),
    rows = fold(shown);
  const isOpen = (row: Row) => row.all.some(line => idOfLine(line) === open);
  const close = () => {
    setLast(open ?? '');
    go(lineHref(null), true);
  };
  const step = (by: number) => {
    const next = rows[open ? rows.findIndex(isOpen) + by : 0];
    if (!next) return;
    setLast('');
    go(lineHref(next.line), true);
  };
  useEffect(() => {
    document.title = 'Audit · sessiond';
  }, []);
  useActions({ next: () => step(1), previous: () => step(-1) });
  const save = () =>
    saveAs(
      `audit-${new Date().toISOString().slice(0, 10)}.jsonl`,
      [...shown].reverse().map(line => JSON.stringify(line) + '\n'),
    );
  return (
    <section class={`view audit ${open ? 'with-line' : ''}`} aria-label="Audit">
      <div class="audit-main">
        <Head title="Audit" note="Every write and every refusal. Never what was said.">
          <Switch />
          <button type="button" class="icon-only" aria-label="Read anew" title="Read anew" onClick={again}>
            <Icon name="again" size={16} />
          </button>
          <button type="button" disabled={!shown.length} onClick={save}>
            Export
          </button>
        </Head>
        <Bar wanted={wanted} lines={lines} shown={shown.length} />
        {error ? (
          <Trouble error={error} again={again} />
        ) : !data ? (
          <Loading />
        ) : rows.length ? (
          <Table rows={rows} isOpen={isOpen} focused={open ? '' : last} />
        ) : (
          <Empty
            title={lines.length ? 'No line fits the filters' : 'Nothing was written or refused yet'}
            icon="audit"
          />
        )}
      </div>
      {open && data && (
        <Panel
          key={open}
          row={rows.find(isOpen) ?? null}
          line={lines.find(line => idOfLine(line) === open) ?? null}
          lines={lines}

          onClose={close}
        />
      )}
    </section>
  );
}
