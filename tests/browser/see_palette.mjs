// The palette, the keys of a conversation, and the search with what stands around a hit.
export default async function (t) {
  const { assert } = t,
    key = 'agent:main:slack:direct:palette';
  const said = (text, more = {}) =>
    t.inbound({
      peer: 'palette',
      text,
      from: { id: 'palette', name: 'Oskar' },
      ...more,
    });
  await said('where is my zeppelin');
  await t.api('POST', t.S(key, '/messages'), {
    entries: [
      {
        type: 'message',
        message: {
          role: 'assistant',
          content: [
            { type: 'thinking', thinking: 'In the hangar, surely.' },
            {
              type: 'toolCall',
              id: 'c1',
              name: 'hangar_lookup',
              arguments: { ship: 'zeppelin' },
            },
          ],
        },
      },
      {
        type: 'message',
        message: {
          role: 'toolResult',
          toolCallId: 'c1',
          toolName: 'hangar_lookup',
          content: 'zeppelin: hangar 4',
        },
      },
      {
        type: 'message',
        message: { role: 'assistant', content: 'The zeppelin is in hangar 4.' },
      },
    ],
  });
  await said('and the second question');
  await t.inbound({
    chatType: 'channel',
    peer: 'C1',
    text: 'a zeppelin came back',
    from: { id: 'hanne', name: 'Hanne' },
  });
  const page = await t.signedIn(await t.browserContext());
  const press = (...keys) =>
    keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
  const at = hash => t.eventually(() => page.evaluate(to => location.hash.startsWith(to), hash), `the address ${hash}`);
  const palette = page.locator('dialog.palette'),
    chosen = palette.locator('[role=option][aria-selected=true]'),
    gone = () => palette.waitFor({ state: 'detached' });
  const closed = async key => {
    await press(key);
    await page.locator('dialog').waitFor({ state: 'detached' });
  };
  const row = page.locator('[data-row]', { hasText: 'Oskar' }).first();
  await row.waitFor();

  // It opens by key and by the field of the navigation, keeps the focus, and gives it back.
  await press('j');
  await t.eventually(() => page.evaluate(() => document.activeElement.matches('[data-row]')), 'a row with the focus');
  await press('Control+k');
  const field = page.getByRole('combobox', { name: 'Search or jump' });
  await t.eventually(() => field.evaluate(one => one === document.activeElement), 'the field of the palette');
  assert.equal(await palette.getByRole('listbox').count(), 1);
  const active = () => field.getAttribute('aria-activedescendant');
  assert.equal(await chosen.getAttribute('id'), await active());
  const first = await active();
  await press('ArrowDown', 'Control+n');
  assert.notEqual(await active(), first);
  await press('ArrowUp', 'Control+p');
  assert.equal(await active(), first);
  assert.equal(await chosen.getAttribute('id'), first);
  await press('Escape');
  await gone();
  assert.equal(await page.evaluate(() => document.activeElement.matches('[data-row]')), true, 'the focus is back');
  await page.getByRole('button', { name: /Search or jump/ }).click();
  await palette.waitFor();

  // To a conversation.
  await page.keyboard.type('oskar slack');
  await chosen.filter({ hasText: 'Oskar' }).waitFor();
  await press('Enter');
  await gone();
  await at(`#/sessions/main/${key}`);
  await page.locator('.thread .message', { hasText: 'second question' }).waitFor();

  // Tools and thinking, turns, and the raw line of the message that has the focus.
  const tool = page.locator('.thread .tool-call'),
    thinking = page.locator('.thread .thinking'),
    isOpen = one => one.evaluate(element => element.open);
  for (const [name, one] of [
    ['e', tool],
    ['t', thinking],
  ])
    for (const open of [true, false]) {
      await press(name);
      await t.eventually(async () => (await isOpen(one)) === open, `${name}: ${open}`);
    }
  const focused = () => page.evaluate(() => document.activeElement.closest('[data-seq]')?.textContent ?? '');
  const lands = words => t.eventually(async () => (await focused()).includes(words), `the focus at ${words}`);
  await page.locator('.thread .message', { hasText: 'second question' }).click();
  await press('[');
  await lands('where is my zeppelin');
  await press(']');
  await lands('second question');
  await press('J');
  await page.locator('dialog[open]', { hasText: 'of the transcript' }).waitFor();
  await press('e');
  await closed('Escape');
  assert.equal(await isOpen(tool), false, 'keys rest behind a dialog');
  await press('r');
  await t.eventually(() => page.evaluate(() => document.activeElement.tagName === 'TEXTAREA'), 'the composer');
  await page.keyboard.type('e');
  assert.equal(await isOpen(tool), false, 'a key that is typed is a letter');
  await press('Backspace', 'Escape');

  // What the open conversation offers.
  await press('Control+k');
  await page.keyboard.type('take');
  await chosen.filter({ hasText: 'Take over' }).waitFor();
  await press('Enter');
  await page.locator('dialog[open]', { hasText: 'Take over from main' }).waitFor();
  await press('Control+k');
  await palette.waitFor();
  await page.keyboard.type('model');
  await chosen.filter({ hasText: 'Model’s view' }).waitFor();
  await press('Enter');
  await page.locator('.model-view').waitFor();
  assert.equal(await page.locator('dialog[open]').count(), 0);
  await press('m');
  await page.locator('.model-view').waitFor({ state: 'detached' });
  await press('u');
  await at('#/sessions');
  await row.locator('.count', { hasText: '1' }).waitFor();

  // Screens, and single keys switched off.
  for (const [key, hash] of [
    ['w', 'work'],
    ['p', 'policy'],
    ['h', 'health'],
    ['a', 'audit'],
    ['s', 'admin'],
    ['c', 'sessions'],
  ]) {
    await press('g', key);
    await at(`#/${hash}`);
  }
  await press('?');
  const letters = page.getByRole('switch', { name: /Single letters/ });
  await letters.click();
  await closed('Escape');
  await press('2', 'g', 'w', '?');
  await at('#/sessions');
  assert.equal(await page.locator('dialog[open]').count(), 0);
  await page.reload();
  await row.waitFor();
  await press('2', 'Control+k');
  await at('#/sessions');
  await page.keyboard.type('keys');
  await press('Enter');
  await letters.click();
  await closed('Escape');
  await press('2');
  await at('#/work');

  // Messages by their words: names and no ids, the context beside, and back to where one was.
  await press('Control+k');
  await page.keyboard.type('zeppelin');
  const messages = palette.getByRole('option', {
    name: 'Search messages for “zeppelin”',
  });
  await messages.waitFor();
  await press('ArrowUp');
  assert.equal(await messages.getAttribute('aria-selected'), 'true', 'it stands last');
  await press('Enter');
  await at('#/search?q=zeppelin');
  const hits = page.locator('.hit'),
    hit = words => hits.filter({ hasText: words });
  await hit('hangar 4.').filter({ hasText: 'to Oskar, Slack' }).waitFor();
  await hit('where is').filter({ hasText: 'Oskarto main, Slack' }).waitFor();
  await hit('came back')
    .filter({ hasText: /Hannein #?[^,]+, Slack/ })
    .waitFor();
  await hit('hangar_lookup').filter({ hasText: 'for Oskar, Slack' }).waitFor();
  assert.equal(await hit('came back').locator('mark').textContent(), 'zeppelin');
  assert.equal((await hits.allTextContents()).join().includes('agent:main'), false);
  const around = page.locator('.hit-context');
  await hit('where is').click();
  await around.locator('.message.marked', { hasText: 'where is my zeppelin' }).waitFor();
  await around.locator('.message', { hasText: 'second question' }).waitFor();
  await at('#/search');
  const current = () => page.locator('.hit[aria-current]').textContent(),
    isAt = words => t.eventually(async () => (await current()).includes(words), `the hit ${words}`);
  await isAt('where is');
  await press('k');
  await isAt('hangar_lookup');
  await press('ArrowDown');
  await isAt('where is');
  await press('ArrowUp');
  await around.locator('.message.marked', { hasText: 'hangar_lookup' }).waitFor();
  await page.getByLabel('What', { exact: true }).selectOption('tool');
  await page.getByLabel('Agent', { exact: true }).selectOption('main');
  await t.eventually(async () => (await hits.count()) === 1, 'what tools said');
  await page.reload();
  await hit('hangar_lookup').waitFor();
  await at('#/search?q=zeppelin&in=tool&agent=main');
  await page.setViewportSize({ width: 1100, height: 800 });
  await around.waitFor({ state: 'detached' });
  await page.getByLabel('Search messages').focus();
  await press('Enter');
  await at(`#/sessions/main/${key}?at=`);
  await page.goBack();
  await page.getByLabel('Search messages').press('Escape');
  await at(`#/sessions/main/${key}`);

  // A viewer is offered nothing that it may not do.
  const viewer = await t.signedIn(await t.browserContext(), await t.token('viewer'), `#/sessions/main/${key}`);
  await viewer.locator('.thread .message').first().waitFor();
  await viewer.keyboard.press('Control+k');
  const offered = await viewer.locator('dialog.palette [role=option]').allTextContents();
  assert.equal(
    offered.some(one => /^(Take over|Hand back|Stop|Write|Admin)/.test(one)),
    false,
    offered.join(),
  );
  assert.equal(
    offered.some(one => one.startsWith('Copy as curl')),
    true,
  );
  t.say('palette, keys of a conversation, single keys off, hits by name with their context');
}
