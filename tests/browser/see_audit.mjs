// The audit log in words: what was done, refused and decided, narrowed by the address, one line with its neighbours, and saved.
import { readFile } from 'node:fs/promises';

export default async function (t) {
  const as = async (token, method, path, body) =>
    (
      await fetch(t.url + path, {
        method,
        headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
        body: body && JSON.stringify(body),
      })
    ).status;
  const { sessionKey: key } = await t.inbound({
    channel: 'audit',
    peer: 'au',
    subject: 'Audited',
    displayName: 'Audited',
  });
  await t.api('PATCH', t.S(key), { name: 'Audited' });
  // A name that turns the direction of what stands behind it is written out.
  const operator = await t.token('operator', { note: 'hanne-desk' }),
    viewer = await t.token('viewer', { note: 'feed\u202eevil' });
  t.assert.equal(await as(operator, 'POST', t.S(key, '/takeover'), { forMs: 60_000, name: 'Hanne' }), 200);
  t.assert.equal(await as(operator, 'POST', t.S(key, '/handback'), { dryRun: true }), 200);
  t.assert.equal(await as(operator, 'POST', t.S(key, '/handback'), {}), 200);
  t.assert.equal(await as(viewer, 'POST', t.S(key, '/reset'), {}), 403);
  t.assert.equal(await as(viewer, 'GET', '/v1/admin/config'), 403);
  for (let n = 0; n < 5; n++) t.assert.equal(await as('sd_wrong', 'GET', '/v1/sessions'), 401);

  const page = await t.signedIn(await t.browserContext({ acceptDownloads: true }));
  const row = (who, what) =>
    page
      .locator('.audit-row')
      .filter({ has: page.getByRole('cell', { name: who, exact: true }) })
      .filter({ hasText: what })
      .first();
  const query = () => page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.split('?')[1])));

  // Old addresses lead to the view.
  await t.go(page, '#/events?filter=zzz');
  await page.getByRole('searchbox', { name: 'Filter events' }).waitFor();
  t.assert.deepEqual(await query(), { view: 'events', filter: 'zzz' });
  await t.go(page, '#/admin/audit');
  await row('hanne-desk', 'Took over a conversation as Hanne').waitFor();
  t.assert.deepEqual(await query(), { view: 'requests' });
  await page.locator('.rail [aria-current=page]', { hasText: 'Audit' }).waitFor();

  // Sentences, where, and the outcome; wrong tokens are one line.
  await row('hanne-desk', 'Handed back a conversation').getByText('Audited, main').waitFor();
  await row('hanne-desk', 'Asked what it would do to hand back a conversation').getByText('200').waitFor();
  await row('feed\\u202eevil', 'Tried to begin a session anew').getByText('403 forbidden').waitFor();
  await row('feed\\u202eevil', 'Tried to read the config').waitFor();
  await row('127.0.0.1', /Tried \d+ times without a valid token/)
    .getByText('401 unauthorized')
    .waitFor();
  t.assert.ok((await page.locator('.audit-row', { hasText: '401 unauthorized' }).count()) < 5);

  // Filters stand in the address.
  const lines = async () =>
    Number((await page.locator('.audit-bar [role=status]').innerText()).split(' ')[0].replace(/\D/g, ''));
  const all = await lines();
  await page.getByRole('button', { name: 'Only refusals and decisions' }).click();
  await row('hanne-desk', 'Took over').waitFor();
  t.assert.equal(await page.locator('.audit-row', { hasText: 'Brought in a message' }).count(), 0);
  const fewer = await lines();
  t.assert.ok(fewer > 5 && fewer < all, `${fewer} of ${all}`);
  await page.getByLabel('Who').selectOption({ label: 'hanne-desk' });
  await page.getByLabel('Action').selectOption('sessions');
  t.assert.equal(await lines(), 2);
  const { actor, group, only } = await query();
  t.assert.ok(actor && group === 'sessions' && only === '1');

  // What is shown is saved, the oldest first.
  const saving = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export' }).click();
  const saved = await saving;
  t.assert.match(saved.suggestedFilename(), /^audit-[\d-]+\.jsonl$/);
  const text = (await readFile(await saved.path(), 'utf8')).trimEnd().split('\n').map(JSON.parse);
  t.assert.deepEqual(
    text.map(line => [line.actor, line.route.split('/').at(-1)]),
    [
      [actor, 'takeover'],
      [actor, 'handback'],
    ],
  );

  // A line opens by keys, its address can be sent, Escape closes it, and the focus is back.
  await t.go(page, '#/audit?only=1');
  const link = row('feed\\u202eevil', 'Tried to begin').getByRole('link');
  await link.focus();
  await page.keyboard.press('Enter');
  const panel = page.getByRole('region', { name: 'Request' });
  await panel.getByText('feed\\u202eevil tried to begin a session anew').waitFor();
  await panel.getByText('The token may not do that.').waitFor();
  await panel.locator('.around', { hasText: 'Took over a conversation' }).waitFor();
  await panel.locator('.code', { hasText: '"code":"forbidden"' }).waitFor();
  // j and k go through the lines.
  await page.keyboard.press('j');
  await panel.getByText('feed\\u202eevil tried to begin a session anew').waitFor({ state: 'detached' });
  await page.keyboard.press('k');
  await panel.getByText('feed\\u202eevil tried to begin a session anew').waitFor();
  const sent = await page.evaluate(() => location.hash);
  await page.keyboard.press('Escape');
  await panel.waitFor({ state: 'detached' });
  await t.eventually(() => link.evaluate(one => one === document.activeElement), 'the focus on the line');
  await page.goto('about:blank');
  await page.goto(`${t.url}/${sent}`);
  await panel.getByText('feed\\u202eevil tried to begin a session anew').waitFor();
  await panel.getByRole('link', { name: 'its lines' }).click();
  await page.locator('.audit-bar .chip', { hasText: 'Audited' }).waitFor();
  await row('hanne-desk', 'Took over').waitFor();
  t.assert.equal(await page.locator('.audit-row', { hasText: 'Made a token' }).count(), 0);

  // From requests to events of the same session.
  await page.getByRole('button', { name: 'Events' }).click();
  await page.locator('.event', { hasText: 'session.takeover' }).first().waitFor();
  t.assert.deepEqual(await query(), { view: 'events', key });
  for (const one of await page.locator('.event .cut').allInnerTexts()) t.assert.equal(one, key);
  t.say('the audit log: words, wrong tokens as one line, filters in the address, a line and its neighbours, export');
}
