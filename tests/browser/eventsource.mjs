// The npm package `eventsource`: EventSource's interface, with a token by its fetch option. One JSON line for each event.
import { EventSource } from 'eventsource';

const [url, token, ...types] = process.argv.slice(2);
const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const source = new EventSource(url, {
  fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } }),
});
source.onopen = () => tell({ state: 'open' });
source.onerror = (error) => tell({ state: source.readyState === source.CLOSED ? 'closed' : 'connecting', code: error.code });
for (const type of types) source.addEventListener(type, (event) => tell({ id: event.lastEventId, type: event.type, data: JSON.parse(event.data) }));
