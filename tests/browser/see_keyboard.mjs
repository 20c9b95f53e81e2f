// All that the help promises, and what one expects of keys, done without a mouse.
export default async function (t) {
  for (const [n, name] of ['Ada', 'Bob', 'Cy'].entries())
    await t.inbound({ peer: `key${n}`, text: `hello of ${name}`, from: { id: `key${n}`, name } });
  const page = await t.signedIn(await t.browserContext()),
    press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
  const rows = page.locator('[data-row]');
  await rows.nth(2).waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.getAttribute('data-row') ?? null);
  const rowOf = n => rows.nth(n).getAttribute('data-row');
  const isOn = (check, what) => t.eventually(check, what);
  const at = hash => isOn(() => page.evaluate(wanted => location.hash.startsWith(wanted), hash), `the address ${hash}`);

  // The first thing that Tab reaches leads past the navigation.
  await press('Tab');
  t.assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
  await press('Enter');
  t.assert.equal(await page.evaluate(() => document.activeElement.id), 'main');

  await press('j');
  await isOn(async () => (await focused()) === (await rowOf(0)), 'the first session');
  await press('j', 'ArrowDown');
  await isOn(async () => (await focused()) === (await rowOf(2)), 'the third session');
  await press('k', 'ArrowUp', 'ArrowDown');
  await isOn(async () => (await focused()) === (await rowOf(1)), 'the second session');
  const second = await rowOf(1);
  await press('Enter');
  await at('#/sessions/main/');
  await page.locator('.thread .message').first().waitFor();
  await press('j');
  await isOn(async () => (await focused()) === (await rowOf(2)), 'j moves on beside an open conversation');
  await at(`#/sessions/main/${(await rowOf(2)).split('\n')[1]}`);
  await press('k');
  await isOn(async () => (await focused()) === second, 'and k back');

  await press('m');
  await page.locator('.model-view').waitFor();
  await press('m');
  await page.locator('.model-view').waitFor({ state: 'detached' });

  // Arrows within a conversation scroll it and do not leave it.
  await page.locator('.thread-list').focus();
  const before = await page.evaluate(() => location.hash);
  await press('ArrowDown', 'ArrowUp');
  t.assert.equal(await page.evaluate(() => location.hash), before);

  // The field keeps what was typed when Escape leaves it; keys of views are letters in it.
  await page.getByRole('button', { name: 'To people' }).click();
  const field = page.getByLabel('Write to people on Slack');
  await field.focus();
  await page.keyboard.type('jk?/m1 one');
  await press('Shift+Enter');
  await page.keyboard.type('two');
  await press('Escape');
  t.assert.equal(await field.inputValue(), 'jk?/m1 one\ntwo');
  t.assert.equal(await page.evaluate(() => location.hash), before, 'the first Escape only leaves the field');
  await field.focus();
  await press('Enter');
  await page.locator('.thread .message', { hasText: 'jk?/m1 one' }).waitFor();
  t.assert.equal(await field.inputValue(), '');
  await press('Escape', 'Escape');
  await at('#/sessions');
  await isOn(async () => (await focused()) === second, 'the session that one comes from');

  // The help, and where the focus is behind it.
  await press('?');
  const dialog = page.locator('dialog[open]');
  await dialog.waitFor();
  for (let n = 0; n < 4; n++) {
    await press('Tab');
    t.assert.equal(
      await page.evaluate(() => document.activeElement === document.body || !!document.activeElement.closest('dialog')),
      true,
      'Tab stays in the dialog',
    );
  }
  await press('1', 'j');
  t.assert.equal(await dialog.count(), 1, 'keys of the view do nothing behind it');
  await press('Escape');
  await dialog.waitFor({ state: 'detached' });
  t.assert.equal(await focused(), second, 'the focus is back');

  await press('/');
  await isOn(
    () => page.evaluate(() => document.activeElement.matches('.filters input[type=search]')),
    'the filter of the list',
  );
  await press('Escape', 'Control+k');
  await page.keyboard.type('hello Cy');
  await page.getByRole('option', { name: 'Search messages for “hello Cy”' }).waitFor();
  await press('ArrowUp', 'Enter');
  const hit = page.locator('.hit', { hasText: 'hello of Cy' });
  await hit.waitFor();
  for (let n = 0; n < 14 && !(await hit.evaluate(one => one === document.activeElement)); n++) await press('Tab');
  await press('Enter');
  await page.locator('.thread .message', { hasText: 'hello of Cy' }).waitFor();

  for (const [key, hash] of [
    ['2', '#/work'],
    ['3', '#/policy'],
    ['4', '#/health'],
    ['5', '#/audit'],
    ['6', '#/admin'],
    ['1', '#/sessions'],
  ]) {
    await press(key);
    await at(hash);
  }

  // Space pauses the events, but presses a button that has the focus.
  await t.go(page, '#/audit?view=events');
  const pause = page.getByRole('button', { name: 'Pause' }),
    resume = page.getByRole('button', { name: /^Resume/ });
  await pause.waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await press('Space');
  await resume.waitFor();
  await press('Space');
  await pause.waitFor();
  await pause.focus();
  await press('Space');
  await resume.waitFor();
  await press('Space');
  await pause.waitFor();
  await page.locator('.event').first().focus();
  await press('Space');
  await dialog.waitFor();
  await press('Escape');
  await dialog.waitFor({ state: 'detached' });
  t.assert.equal(
    await page.evaluate(() => document.activeElement.className),
    'event',
    'the focus is back at the event',
  );

  // A question: what destroys is not what Enter presses at first, and the focus goes back to what asked.
  await t.go(page, `#/sessions/main/${second.split('\n')[1]}/session`);
  const remove = page.getByRole('button', { name: 'Delete…' });
  await remove.focus();
  await press('Enter');
  await dialog.waitFor();
  t.assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), 'Cancel');
  await press('Enter');
  await dialog.waitFor({ state: 'detached' });
  t.assert.equal(await remove.evaluate(one => one === document.activeElement), true, 'the focus is back at the button');
  t.say(
    '?, /, Ctrl K, 1 to 6, j, k, arrows, Enter, Escape, m, Space, Tab: each does what the help says; the focus goes back after a dialog',
  );
}
