// Seven tabs hold one stream; the daemon dies under them and comes back: every tab is right again, nothing is missing or twice.
export default async function (t) {
  const { sessionKey: key } = await t.inbound({ peer: 'tabs', text: 'said 0' });
  const context = await t.browserContext({ viewport: { width: 900, height: 1200 } });
  const tabs = [await t.signedIn(context, t.admin, `#/sessions/main/${key}`)];
  for (let n = 1; n < 7; n++) {
    const tab = await context.newPage();
    await tab.goto(`${t.url}/#/sessions/main/${key}`);
    await tab.locator('#state.live').waitFor();
    tabs.push(tab);
  }
  const { id } = await t.api('GET', '/v1/whoami');
  const streams = async () =>
    (await t.api('GET', '/v1/admin/streams')).data.filter(stream => stream.token === id).length;
  t.assert.equal(await streams(), 1, 'seven tabs, one stream');
  for (let n = 1; n <= 3; n++) await t.inbound({ peer: 'tabs', text: `said ${n}` });
  await Promise.all(tabs.map(tab => tab.getByText('said 3', { exact: true }).last().waitFor()));
  await t.daemon('restart');
  for (let n = 4; n <= 6; n++) await t.inbound({ peer: 'tabs', text: `said ${n}` });
  await Promise.all(
    tabs.map(tab =>
      tab
        .locator('.thread')
        .getByText('said 6', { exact: true })
        .waitFor({ timeout: 30_000 * t.slow }),
    ),
  );
  for (const tab of tabs) {
    const said = (await tab.locator('.thread .message .md').allInnerTexts()).filter(text => text.startsWith('said '));
    t.assert.deepEqual(
      said,
      [0, 1, 2, 3, 4, 5, 6].map(n => `said ${n}`),
    );
  }
  await t.eventually(async () => (await streams()) === 1, 'one stream after the restart');
  await tabs[0].close();
  await t.inbound({ peer: 'tabs', text: 'said 7' });
  await tabs[1].locator('.thread').getByText('said 7', { exact: true }).waitFor();
  t.say('7 tabs, 1 stream; 8 messages over a kill -9, each once in every tab');
}
