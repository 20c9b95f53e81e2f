// Events as fast as 500 a second for SECONDS while a conversation is open: how soon a message is seen, the long tasks of the
// first minute, and what of the heap is used at each minute, after a forced collection.
const RATE = 500;

// Makes `seen(text)`, which resolves with the time when the text is in the thread, within the window, and drawn.
function watchTexts() {
  window.seen = text =>
    new Promise(resolve => {
      const look = () => {
        const hit = [...document.querySelectorAll('.thread .message')].findLast(one => one.textContent.includes(text));
        const at = hit?.getBoundingClientRect();
        if (!at || at.top >= innerHeight || at.bottom <= 0) return;
        watch.disconnect();
        requestAnimationFrame(() => setTimeout(() => resolve(Date.now()), 0));
      };
      const watch = new MutationObserver(look);
      watch.observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true });
    });
}

// Posts from outside of the page, as curl would; both clocks are the system's.
async function latencies(t, page, key) {
  await page.evaluate(watchTexts);
  const took = [];
  for (let n = 0; n < 50; n++) {
    const text = `seen-${n}-`;
    await page.evaluate(wanted => {
      window.now = window.seen(wanted);
    }, text);
    const began = Date.now();
    await t.api('POST', t.S(key, '/messages'), { role: 'user', text });
    took.push((await page.evaluate(() => window.now)) - began);
  }
  return took.sort((a, b) => a - b);
}

class Flood {
  constructor(t, key) {
    Object.assign(this, { t, key, sent: 0, began: Date.now() });
  }

  async until(ms) {
    while (Date.now() - this.began < ms) {
      const due = Math.min(100, Math.floor(((Date.now() - this.began) / 1000) * RATE) - this.sent);
      if (due > 0) {
        await this.t.api('POST', this.t.S(this.key, '/messages'), {
          entries: Array.from({ length: due }, (_, n) => ({
            role: n % 2 ? 'assistant' : 'user',
            text: `event ${this.sent + n}`,
          })),
        });
        this.sent += due;
      } else await new Promise(resolve => setTimeout(resolve, 10));
    }
  }
}

export default async function (t) {
  const seconds = Number(process.env.SECONDS ?? 4);
  const { sessionKey: key } = await t.inbound({ peer: 'flood', text: 'first' });
  const page = await t.signedIn(await t.browserContext(), t.admin, `#/sessions/main/${key}`);
  await page.locator('.thread', { hasText: 'first' }).waitFor();
  const took = await latencies(t, page, key);
  t.say(`a message is drawn after ${took[25]} ms (median of 50 posted from outside), p95 ${took[47]}, slowest ${took[49]}`);

  await page.evaluate(() => {
    window.long = [];
    new PerformanceObserver(list => window.long.push(...list.getEntries().map(one => one.duration))).observe({
      type: 'longtask',
    });
  });
  const session = await page.context().newCDPSession(page),
    seqNow = async () => Number((await t.api('GET', '/v1/sessions?limit=1')).asOf.split('-')[1]);
  const heap = async () => {
    await session.send('HeapProfiler.collectGarbage');
    return (await session.send('Runtime.getHeapUsage')).usedSize / 2 ** 20;
  };
  const heaps = [await heap()],
    before = await seqNow(),
    flood = new Flood(t, key);
  await page.evaluate(() => (window.long.length = 0)); // what was collected above is no task of the page
  for (let minute = 1; minute <= Math.ceil(seconds / 60); minute++) {
    const end = Math.min(seconds, minute * 60);
    await flood.until(end * 1000);
    if (minute === 1) {
      const long = await page.evaluate(() => window.long);
      const took = ((Date.now() - flood.began) / 1000).toFixed(0);
      t.say(
        `${(await seqNow()) - before} events in ${took} s: ${long.length} tasks over 50 ms, the longest ${Math.max(0, ...long).toFixed(0)} ms`,
      );
    }
    heaps.push(await heap());
    if (seconds >= 120) t.say(`minute ${minute}: ${flood.sent} messages, heap ${heaps.at(-1).toFixed(1)} MiB`);
  }
  await page.locator('.thread', { hasText: `event ${flood.sent - 1}` }).waitFor({ timeout: 20_000 * t.slow });
  t.say(`heap in use after each minute: ${heaps.map(one => one.toFixed(1)).join(', ')} MiB, the first before the flood`);
}
