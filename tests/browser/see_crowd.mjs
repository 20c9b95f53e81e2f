// The overview of SESSIONS sessions: it opens, scrolls to the end, filters, opens one, and a message moves the oldest to the top.
// Says how long each took, and the long tasks of each.
const CHANNELS = ['slack', 'discord', 'telegram', 'whatsapp', 'signal'],
  KINDS = ['direct', 'group', 'channel'];
const keyOf = n =>
  `agent:main:${CHANNELS[n % 5]}:${KINDS[Math.floor(n / 7) % 3]}:u${String(n).padStart(6, '0')}`;

export default async function (t) {
  const count = Number(process.env.SESSIONS),
    last = count - 1;
  const context = await t.browserContext();
  await context.addInitScript(() => {
    window.long = [];
    new PerformanceObserver(list => window.long.push(...list.getEntries().map(one => one.duration))).observe({
      type: 'longtask',
      buffered: true,
    });
  });
  const page = await context.newPage();
  const row = n => page.locator(`[data-row$=":u${String(n).padStart(6, '0')}"]`);
  const step = async (what, act) => {
    const began = Date.now();
    await act();
    const took = Date.now() - began,
      long = await page.evaluate(() => window.long.splice(0));
    t.say(
      `${what}: ${took} ms, ${long.length} tasks over 50 ms, the longest ${Math.max(0, ...long).toFixed(0)} ms`,
    );
  };
  await step(`opening the overview of ${count} sessions`, async () => {
    await page.goto(`${t.url}/#token=${t.admin}`);
    await row(0).waitFor();
    await page.locator('#state.live').waitFor();
  });
  await step('scrolling to the end', async () => {
    // As End held down does, without a round trip for each press.
    const pages = await page.evaluate(async key => {
      const list = document.querySelector('#sessions [role=list]');
      let grown = 0;
      for (let height = 0, frames = 0; !document.querySelector(`[data-row$="${key}"]`); frames++) {
        if (list.scrollHeight !== height) grown++;
        height = list.scrollHeight;
        if (frames > 60_000) throw new Error('the end was not reached');
        list.scrollTop = height;
        await new Promise(requestAnimationFrame);
      }
      return grown;
    }, keyOf(last));
    t.assert.ok(pages > 1 || count < 200);
  });
  await step('a message moves the oldest to the top', async () => {
    await t.api('POST', t.S(keyOf(last), '/messages'), { role: 'user', text: 'woken' });
    await page.evaluate(() => (document.querySelector('#sessions [role=list]').scrollTop = 0));
    await t.eventually(
      async () => (await page.locator('[data-row]').first().getAttribute('data-row')).endsWith(keyOf(last)),
      'the oldest at the top',
    );
  });
  await step('finding one by its name', async () => {
    await page.getByLabel('Find sessions').fill(`number ${Math.floor(count / 2)}`);
    await row(Math.floor(count / 2)).waitFor();
    await row(0).waitFor({ state: 'detached' });
  });
  await step('opening it', async () => {
    await row(Math.floor(count / 2)).click();
    await page.locator('.conversation h1', { hasText: `number ${Math.floor(count / 2)}` }).waitFor();
  });
  await step('one channel of all', async () => {
    await page.getByLabel('Find sessions').fill('');
    await page.getByRole('button', { name: 'Filters' }).click();
    await page.getByLabel('Channel').selectOption('telegram');
    await row(2).waitFor();
    await row(0).waitFor({ state: 'detached' });
  });
}
