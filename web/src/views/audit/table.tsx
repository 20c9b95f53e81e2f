// The requests as a table. The sentence of a row is the link that opens it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { count, moment, timeOf } from '../../ui/format';
import { idOfLine, outcomeOf, whereOf, whoOf, type Row } from './lines';
import { lineHref } from './requests';
import { isRefused, sentenceOf } from './words';

const PAGE = 200; // rows, and as many more each time

function LineRow({ row, open, focused }: { row: Row; open: boolean; focused: boolean }) {
  const link = useRef<HTMLAnchorElement>(null),
    { line } = row,
    refused = isRefused(line);
  useEffect(() => {
    if (open) link.current?.scrollIntoView({ block: 'nearest' });
    if (focused) link.current?.focus({ preventScroll: true });
  }, [open, focused]);
  return (
    <div role="row" class={`audit-row ${open ? 'open' : ''}`}>
      <span role="cell">
        <time class="soft num" dateTime={new Date(line.time).toISOString()} title={moment(line.time)}>
          {timeOf(line.time)}
        </time>
      </span>
      <span role="cell" class="cut who" dir="auto">
        {whoOf(line)}
      </span>
      <span role="cell">
        <a ref={link} class="cut" href={lineHref(line)} aria-current={open ? 'true' : undefined}>
          {sentenceOf(line, row.all.length)}
        </a>
      </span>
      <span role="cell" class="cut soft" dir="auto">
        {whereOf(line)}
      </span>
      <span role="cell" class={`cut num ${refused ? 'bad-text' : 'good-text'}`}>
        {outcomeOf(row)}
      </span>
    </div>
  );
}

export function Table({ rows, isOpen, focused }: { rows: Row[]; isOpen: (row: Row) => boolean; focused: string }) {
  const [most, setMost] = useState(PAGE);
  const at = rows.findIndex(isOpen),
    drawn = rows.slice(0, Math.max(most, at + 20));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Lines of the audit log">
      <div role="table" aria-label="Audit log" aria-rowcount={rows.length + 1}>
        <div role="row" class="audit-row heads">
          {['Time', 'Who', 'What', 'Where', 'Outcome'].map(name => (
            <span key={name} role="columnheader">
              {name}
            </span>
          ))}
        </div>
        {drawn.map((row, n) => (
          <LineRow
            key={idOfLine(row.line)}
            row={row}

            open={n === at}
            focused={!!focused && row.all.some(line => idOfLine(line) === focused)}
          />
        ))}
      </div>
      {rows.length > drawn.length && (
        <p class="pad">
          <button type="button" onClick={() => setMost(drawn.length + PAGE)}>
            {count(rows.length - drawn.length)} older lines
          </button>
        </p>
      )}
    </div>
  );
}
