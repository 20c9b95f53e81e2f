// How long from starting `sessiond serve --demo` until its overview can be used, five times, in a browser that runs already but
// has nothing cached; and how many bytes the daemon sends until then, counted by a proxy in a sixth run.
import { spawn } from 'node:child_process';
import net from 'node:net';

// Resolves with the address that the demo listens at and its token, and a function that ends it.
function demo() {
  const began = Date.now();
  const child = spawn(process.env.SESSIOND_BINARY, ['serve', '--demo', '--listen', '127.0.0.1:0']);
  let out = '',
    log = '';
  return new Promise((resolve, reject) => {
    const ended = new Promise(done => child.on('exit', done));
    ended.then(code => reject(new Error(`the demo ended with ${code}: ${log}`)));
    const look = () => {
      const token = /#token=(sd_\S+)/.exec(out)?.[1],
        port = /listening\b.*?\btcp="?[^\s"]*?:(\d+)/.exec(log)?.[1];
      if (!token || !port) return;
      resolve({
        began,
        ready: Date.now(),
        port: Number(port),
        token,
        end: () => {
          child.kill('SIGINT');
          return ended;
        },
      });
    };
    child.stdout.on('data', piece => {
      out += piece;
      look();
    });
    child.stderr.on('data', piece => {
      log += piece;
      look();
    });
  });
}

// Usable: a row of the overview was drawn, the stream is live, and the page has had a frame since.
function usable() {
  window.usable = new Promise(resolve => {
    const look = () => {
      if (!document.querySelector('[data-row]') || !document.querySelector('#state.live')) return;
      watch.disconnect();
      requestAnimationFrame(() => setTimeout(() => resolve(Date.now()), 0));
    };
    const watch = new MutationObserver(look);
    watch.observe(document, { childList: true, subtree: true, attributes: true });
  });
}

// When the page could be used; it is closed then.
async function usableAt(t, url) {
  const context = await t.browser.newContext({ viewport: { width: 1440, height: 900 } });
  const page = await context.newPage();
  await page.addInitScript(usable);
  await page.goto(url);
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error('never usable')), 20_000 * t.slow).unref());
  const at = await Promise.race([page.evaluate(() => window.usable), late]);
  await context.close();
  return at;
}

function counting(port) {
  let bytes = 0;
  const proxy = net.createServer(client => {
    const daemon = net.connect(port, '127.0.0.1');
    daemon.on('data', piece => (bytes += piece.length));
    client.on('error', () => daemon.destroy());
    daemon.on('error', () => client.destroy());
    client.pipe(daemon).pipe(client);
  });
  return new Promise(resolve =>
    proxy.listen(0, '127.0.0.1', () =>
      resolve({ port: proxy.address().port, bytes: () => bytes, close: () => proxy.close() }),
    ),
  );
}

export default async function (t) {
  const totals = [],
    readies = [];
  for (let n = 0; n < 5; n++) {
    const one = await demo();
    try {
      totals.push((await usableAt(t, `http://127.0.0.1:${one.port}/#token=${one.token}`)) - one.began);
      readies.push(one.ready - one.began);
    } finally {
      await one.end();
    }
  }
  const one = await demo(),
    proxy = await counting(one.port);
  try {
    await usableAt(t, `http://127.0.0.1:${proxy.port}/#token=${one.token}`);
  } finally {
    proxy.close();
    await one.end();
  }
  const median = list => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)];
  t.say(
    `from the start of serve --demo to a usable overview: ${median(totals)} ms (median of ${totals.join(', ')}); ` +
      `of these until the demo told its address: ${median(readies)} ms`,
  );
  t.say(
    `the daemon sent ${(proxy.bytes() / 1024).toFixed(1)} KiB: the page's files, the answers of the API, and all headers`,
  );
}
