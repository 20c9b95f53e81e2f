// The audit log: every write and every refusal, the newest first.
import { useState } from 'preact/hooks';
import type { Schemas } from '../../api/client';
import { Badge } from '../../ui/basics';
import { moment } from '../../ui/format';
import { Empty, Loading, Trouble } from '../../ui/states';
import { useAsk } from '../../ui/use';

type Line = Schemas['AuditLine'];
const about = (line: Line) =>
  [line.agent, line.key?.replace(/^agent:[^:]*:/, ''), line.topic, line.id ?? line.name].filter(Boolean).join(' · ');

export function Audit() {
  const { data, error, again } = useAsk<{ data: Line[] }>('/v1/admin/audit?limit=200');
  const [filter, setFilter] = useState('');
  if (error) return <Trouble error={error} again={again} />;
  if (!data) return <Loading />;
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const lines = [...data.data]
    .sort((a, b) => b.time - a.time)
    .filter(line => words.every(word => JSON.stringify(line).toLowerCase().includes(word)));
  return (
    <>
      <p class="row wrap">
        <input
          type="search"
          class="grow"
          placeholder="Filter: DELETE  403  a token’s id"
          aria-label="Filter the audit log"
          value={filter}
          onInput={event => setFilter(event.currentTarget.value)}
        />
        <button type="button" onClick={again}>
          Read anew
        </button>
      </p>
      {lines.length ? (
        <div class="table-wrap" tabIndex={0} role="region" aria-label="Audit log">
          <table>
            <thead>
              <tr>
                {['Time', 'Who', 'What', 'About', 'Result'].map(name => (
                  <th key={name} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {lines.map(line => (
                <tr key={line.requestId}>
                  <td class="num">{moment(line.time)}</td>
                  <td>
                    <span class="mono">{line.actor}</span>{' '}
                    <span class="soft">
                      {line.role} {line.peer}
                    </span>
                  </td>
                  <td class="mono">
                    {line.method} {line.route}
                  </td>
                  <td>{about(line)}</td>
                  <td>
                    <Badge tone={line.status < 400 ? 'good' : 'bad'}>{line.status}</Badge>{' '}
                    <span class="soft">{line.code}</span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <Empty title="No line fits" icon="admin" />
      )}
    </>
  );
}
