// Signing in, what the browser keeps, a restart under the page, signing out.
export default async function (t) {
  const context = await t.browserContext(),
    page = await context.newPage();
  const { sessionKey: key } = await t.inbound();
  await page.goto(t.url + '/');
  await page.locator('#token').fill('sd_wrong');
  await page
    .locator('#login')
    .press('Enter')
    .catch(() => {});
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('#refused', { hasText: 'not valid' }).waitFor();
  await page.locator('#token').fill(await t.token('viewer'));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('#state.live').waitFor();
  await page.locator('#sessions', { hasText: 'Ada' }).waitFor();
  t.assert.equal(await page.evaluate(() => document.cookie), '', 'no script reads the cookie');
  t.assert.equal(
    await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }).includes('sd_')),
    false,
    'no token is kept',
  );
  const last = () => page.locator('#state').getAttribute('data-last');
  let said = await t.inbound({ text: 'again' });
  await t.eventually(async () => (await last()) === said.asOf, 'the event');
  await page.reload();
  await page.locator('#state.live').waitFor();
  await t.daemon('restart');
  said = await t.inbound({ text: 'after the kill' });
  await t.eventually(async () => (await last()) === said.asOf, 'the event after the kill', 30_000);
  await page.getByLabel('Find sessions').fill(key); // among others it may be far down
  await page.locator(`[data-row$="${key}"]`).waitFor();
  // What got no answer while the daemon was away is asked for again when it is back.
  await page.route('**/v1/sessions?*', route => route.abort());
  await page.reload();
  await page.locator('#sessions', { hasText: 'does not answer' }).waitFor();
  await page.unroute('**/v1/sessions?*');
  await t.daemon('restart');
  await page.locator('#sessions', { hasText: 'does not answer' }).waitFor({ state: 'detached', timeout: 30_000 * t.slow });
  await page.getByLabel('Find sessions').fill(key);
  await page.locator(`[data-row$="${key}"]`).waitFor();
  await page.locator('#leave').click();
  await page.locator('#token').waitFor();
  t.assert.equal(await page.evaluate(() => fetch('/v1/whoami').then(reply => reply.status)), 401);
}
