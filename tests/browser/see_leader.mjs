// Without SharedWorker one tab leads by a Web Lock and passes its stream on; when it closes, the next one takes over and misses
// nothing. Without Web Locks, too, every tab has a stream of its own.
export default async function (t) {
  const { sessionKey: key } = await t.inbound({ peer: 'lead', text: 'said 0' });
  const { id } = await t.api('GET', '/v1/whoami');
  const streams = async () =>
    (await t.api('GET', '/v1/admin/streams')).data.filter(stream => stream.token === id).length;
  const tab = async (context, first = false) => {
    const page = await context.newPage();
    if (first) {
      await page.goto(`${t.url}/#token=${t.admin}`);
      await page.locator('#state.live').waitFor();
    }
    await page.goto(`${t.url}/#/sessions/main/${key}`);
    await page.locator('#state.live').waitFor();
    await page.locator('.thread .message').first().waitFor();
    return page;
  };
  const say = n => t.inbound({ peer: 'lead', text: `said ${n}` });
  const has = async (page, last) => {
    await page.locator('.thread').getByText(`said ${last}`, { exact: true }).waitFor({ timeout: 30_000 * t.slow });
    const said = (await page.locator('.thread .message .md').allInnerTexts()).filter(text => text.startsWith('said '));
    t.assert.deepEqual(
      said,
      Array.from({ length: last + 1 }, (_, n) => `said ${n}`),
    );
  };

  const context = await t.browserContext({ viewport: { width: 900, height: 1600 } });
  await context.addInitScript(() => {
    delete globalThis.SharedWorker;
  });
  const leader = await tab(context, true),
    other = await tab(context);
  t.assert.equal(await leader.evaluate(() => 'SharedWorker' in globalThis), false);
  await t.eventually(async () => (await streams()) === 1, 'two tabs, one stream');
  await say(1);
  await Promise.all([has(leader, 1), has(other, 1)]);
  // What is said while the leader closes, and before the other one leads, is there once, too.
  const saying = (async () => {
    for (let n = 2; n <= 8; n++) await say(n);
  })();
  await leader.close();
  await saying;
  await has(other, 8);
  await t.eventually(async () => (await streams()) === 1, 'one stream after the leader closed');
  const third = await tab(context);
  await t.eventually(async () => (await streams()) === 1, 'a tab that comes later, one stream');
  await t.daemon('restart');
  await say(9);
  await Promise.all([has(other, 9), has(third, 9)]);
  await t.eventually(async () => (await streams()) === 1, 'one stream after the restart');
  await context.close();
  await t.eventually(async () => (await streams()) === 0, 'no stream without a tab');

  const insecure = await t.browserContext({ viewport: { width: 900, height: 1600 } });
  await insecure.addInitScript(() => {
    delete globalThis.SharedWorker;
    delete Navigator.prototype.locks;
  });
  const one = await tab(insecure, true),
    two = await tab(insecure);
  await t.eventually(async () => (await streams()) === 2, 'a stream for each tab');
  await say(10);
  await Promise.all([has(one, 10), has(two, 10)]);
  t.say(
    'without SharedWorker: 2 tabs, 1 stream, the leader closed, the daemon killed: 10 messages, each once; without Web Locks: a stream for each tab',
  );
}
