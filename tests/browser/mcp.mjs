// A client of the Model Context Protocol. Each line of standard input is {"tool","arguments"}, or {} for the list of tools; each
// line of standard output is what came, or {"failed"}. The first line tells what was negotiated.
//   node mcp.mjs sdk|client legacy|auto|pin URL TOKEN
import { createInterface } from 'node:readline';

const [which, mode, url, token] = process.argv.slice(2);
const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const asked = [];
const watching = async (input, init) => {
  const headers = new Headers(init?.headers);
  const body = init?.body ? JSON.parse(init.body) : {};
  const reply = await fetch(input, init);
  asked.push({ http: init?.method ?? 'GET', method: body.method, version: headers.get('mcp-protocol-version'),
    named: headers.get('mcp-name'), status: reply.status });
  return reply;
};

const { Client, StreamableHTTPClientTransport } = which === 'client'
  ? await import('@modelcontextprotocol/client')
  : { ...await import('@modelcontextprotocol/sdk/client/index.js'), ...await import('@modelcontextprotocol/sdk/client/streamableHttp.js') };
const options = { auto: { versionNegotiation: { mode: 'auto' } }, pin: { versionNegotiation: { mode: { pin: '2026-07-28' } } } }[mode];
const client = new Client({ name: 'test', version: '1' }, options);
await client.connect(new StreamableHTTPClientTransport(new URL(url), {
  fetch: watching, requestInit: { headers: { Authorization: `Bearer ${token}` } },
}));
tell({ asked: asked.splice(0), server: client.getServerVersion(), instructions: client.getInstructions() });

for await (const line of createInterface({ input: process.stdin })) {
  const { tool, arguments: given } = JSON.parse(line);
  try {
    tell({ result: tool ? await client.callTool({ name: tool, arguments: given }) : await client.listTools(), asked: asked.splice(0) });
  } catch (error) {
    tell({ failed: String(error), asked: asked.splice(0) });
  }
}
await client.close();
