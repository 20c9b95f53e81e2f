// Serves the dashboard while one edits it: node dev.mjs [--daemon http://127.0.0.1:7433] [--port 5173]. Every load of the
// page bundles src/ anew, a saved file reloads the page, and everything else is passed to a daemon that runs.
import { watch } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundle, typeOf } from './build.mjs';

const option = (name, otherwise) => {
  const at = process.argv.indexOf('--' + name);
  return at > 0 ? process.argv[at + 1] : otherwise;
};
const daemon = new URL(option('daemon', 'http://127.0.0.1:7433')),
  port = Number(option('port', 5173));
const here = path.dirname(fileURLToPath(import.meta.url));
// The daemon's own policy (daemon/api/dashboard.cpp), so that what it forbids fails here, too.
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; worker-src 'self'; base-uri 'none'; " +
  "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify sessiond";
const RELOAD = "new EventSource('/-/changed').onmessage = () => location.reload();";

let files = new Map();
const pages = new Set(); // that wait for a change

async function rebuild() {
  const made = await bundle({ sourcemap: 'inline', minify: false });
  files = new Map(made.map(({ name, bytes }) => [name, bytes]));
}

let soon = 0;
watch(path.join(here, 'src'), { recursive: true }, () => {
  clearTimeout(soon);
  soon = setTimeout(() => {
    for (const page of pages) page.write('data: changed\n\n');
  }, 80);
});

function pass(request, reply) {
  const asked = http.request(
    {
      host: daemon.hostname,
      port: daemon.port,
      path: request.url,
      method: request.method,
      headers: { ...request.headers, host: daemon.host, ...(request.headers.origin && { origin: daemon.origin }) },
    },
    answer => {
      reply.writeHead(answer.statusCode, answer.headers);
      answer.pipe(reply);
    },
  );
  asked.on('error', () => {
    if (!reply.headersSent) reply.writeHead(502);
    reply.end();
  });
  reply.on('close', () => asked.destroy());
  request.pipe(asked);
}

http
  .createServer(async (request, reply) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const send = (type, bytes) => {
      reply.writeHead(200, { 'Content-Type': type, 'Cache-Control': 'no-store', 'Content-Security-Policy': POLICY });
      reply.end(bytes);
    };
    if (pathname === '/-/changed') {
      reply.writeHead(200, { 'Content-Type': 'text/event-stream' });
      pages.add(reply);
      reply.on('close', () => pages.delete(reply));
      return;
    }
    if (pathname === '/-/reload.js') {
      send('text/javascript', RELOAD);
      return;
    }
    if (pathname === '/') {
      await rebuild().catch(error => console.error(error.message));
      send(
        typeOf(''),
        (files.get('') ?? Buffer.from('src/ does not build: see the terminal'))
          .toString()
          .replace('</head>', '<script type="module" src="/-/reload.js"></script>\n</head>'),
      );
      return;
    }
    const file = pathname.startsWith('/assets/') && pathname.slice('/assets/'.length);
    if (file && files.has(file)) {
      send(typeOf(file), files.get(file));
      return;
    }
    pass(request, reply);
  })
  .listen(port, '127.0.0.1', () =>
    console.log(`http://127.0.0.1:${port}/ shows src/, with the daemon at ${daemon.origin}`),
  );
