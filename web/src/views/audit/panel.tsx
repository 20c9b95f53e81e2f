// A line of the audit log, whole: what it means, whose it is, what happened around it, and how it was logged.
import { nameOfToken } from '../../state/token_names';
import type { ComponentChildren } from 'preact';
import { hrefOf, sessionHref } from '../../state/route';
import { Copy, Json } from '../../ui/basics';
import { moment, timeOf, visible } from '../../ui/format';
import { Pairs, SidePanel } from '../../ui/side_panel';
import { Empty } from '../../ui/states';
import { meaningOf } from './codes';
import { actorOf, around, idOfLine, keyTitle, nameOf, outcomeOf, placeOf, whoOf, type Row } from './lines';
import { lineHref } from './requests';
import { isRefused, sentenceOf, type Line } from './words';

const lower = (sentence: string) => sentence[0]!.toLowerCase() + sentence.slice(1);

function Facts({ line }: { line: Line }) {
  const place = placeOf(line),
    only = (query: Record<string, string>) => hrefOf('audit', [], { view: 'requests', ...query });
  const facts: [string, ComponentChildren][] = [
    ['Time', moment(line.time)],
    [
      'Token',
      line.actor ? (
        <>
          <a href={only({ actor: actorOf(line) })}>{nameOf(line.actor)}</a>{' '}
          {nameOfToken(line.actor) !== line.actor && <span class="mono soft">{visible(line.actor)}</span>}
        </>
      ) : (
        'None'
      ),
    ],
    ['Role', line.role],
    ['From', visible(line.peer)],
    ['About', line.route?.startsWith('/v1/admin/tokens/') && line.id && nameOf(line.id)],
    [
      'Conversation',
      place && (
        <>
          <a href={sessionHref(place)}>{keyTitle(place)}</a> · <a href={only({ key: place.key })}>its lines</a>
        </>
      ),
    ],
    ['Code', line.code && <a href={only({ code: line.code })}>{visible(line.code)}</a>],
    [
      'Request',
      <span class="row">
        <span class="mono cut">{visible(line.requestId)}</span>
        <Copy value={() => line.requestId} label="Copy the request id" />
      </span>,
    ],
  ];
  return (
    <section>
      <Pairs rows={facts} />
    </section>
  );
}

function Around({ line, lines }: { line: Line; lines: Line[] }) {
  return (
    <section>
      <h3>Around it</h3>
      <ol class="pairs around">
        {around(line, lines)
          .reverse()
          .map(one => (
            <li key={idOfLine(one)}>
              <time class="soft num" title={moment(one.time)}>
                {timeOf(one.time)}
              </time>
              <a
                href={lineHref(one)}
                class={isRefused(one) ? 'bad-text' : ''}
                aria-current={one === line ? 'true' : undefined}
              >
                {sentenceOf(one)}
              </a>
            </li>
          ))}
      </ol>
    </section>
  );
}

interface Shown {
  row: Row | null; // null: the filters do not show it
  line: Line | null; // null: it is none of `lines`
  lines: Line[];
  onClose: () => void;
}
export function Panel({ row, line, lines, onClose }: Shown) {
  const times = line && row?.line === line ? row.all.length : 1,
    meaning = line && meaningOf(line.code, line.route);
  return (
    <SidePanel title="Request" raw={line ?? undefined} onClose={onClose}>
      {line ? (
        <>
          <section>
            <p class="panel-title" dir="auto">
              {whoOf(line)} {lower(sentenceOf(line, times))}
            </p>
            <p class={isRefused(line) ? 'bad-text' : 'good-text'}>{outcomeOf(row ?? { line, all: [line] })}</p>
            {meaning && <p class="soft">{meaning}</p>}
          </section>
          <Facts line={line} />
          <Around line={line} lines={lines} />
          <section>
            <h3 class="row">
              As logged <span class="soft grow file">audit.jsonl</span>
            </h3>
            <Json value={visible(JSON.stringify(line))} label="As logged" />
          </section>
        </>
      ) : (
        <Empty title="This line is not here" icon="audit">
          Only the newest 1 000 lines are read. Older ones are in audit.jsonl.
        </Empty>
      )}
    </SidePanel>
  );
}
