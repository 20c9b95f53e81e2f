// The npm package `eventsource-client`, with a token in its headers. One JSON line for each event.
import { createEventSource } from 'eventsource-client';

const [url, token] = process.argv.slice(2);
const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

createEventSource({
  url,
  headers: { Authorization: `Bearer ${token}` },
  onConnect: () => tell({ state: 'open' }),
  onDisconnect: () => tell({ state: 'connecting' }),
  onMessage: ({ id, event, data }) => tell({ id, type: event, data: JSON.parse(data) }),
});
