// What can be done from the page, in the demo's day: answer, stop, retry, send, edit against somebody else, reset, policy, tokens.
export default async function (t) {
  const page = await t.signedIn(await t.browserContext(), t.admin);
  const yes = name => page.locator('dialog[open]').getByRole('button', { name, exact: true }).click();
  const said = text => page.locator('.toast', { hasText: text }).first().waitFor();

  // Four questions of one who has never seen it: what waits, why a delivery failed, which rule denies, how full a context is.
  // A link that signs in leaves nothing of the token in the page.
  await page.locator('.rail [aria-current=page]', { hasText: 'Sessions' }).waitFor();
  t.assert.equal((await page.content()).includes(t.admin), false);

  // The list names both, and each conversation says itself what is wrong.
  await page.locator('[data-row]', { hasText: 'not delivered' }).click();
  await page.locator('.undelivered', { hasText: 'bot was blocked by the user' }).waitFor();
  await page.locator('[data-row]', { hasText: 'asks to use kubectl' }).click();
  await page.locator('.thread .approval', { hasText: 'kubectl rollout restart' }).waitFor();
  await t.go(page, '#/work');
  await page.locator('.work-row a', { hasText: 'bot was blocked' }).click();
  const delivery = page.getByRole('region', { name: 'Delivery' });
  await delivery.getByText('This person does not take messages from the bot').waitFor();
  await delivery.getByRole('button', { name: 'Send again' }).click();
  await said('waits for its bridge again');
  await delivery.getByText('It was refused, and is tried again').waitFor();
  await page.locator('.work-row a', { hasText: 'asks to use kubectl' }).click();
  const sheet = page.locator('dialog.sheet');
  await sheet.getByText('kubectl rollout restart').waitFor();
  await sheet.getByText('ok. restart them one by one').waitFor();
  await sheet.getByRole('button', { name: 'Deny' }).click();
  await said('Denied');
  await sheet.getByText(/^Denied by/).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('.thread .approval-line', { hasText: /kubectl Denied by you/ }).waitFor();
  await t.go(page, '#/work');
  await page.locator('.counter.asking', { hasText: 'none' }).waitFor();
  await page.locator('.work-row', { hasText: '#eng-platform' }).getByRole('button', { name: 'Stop' }).click();
  await yes('Stop it');
  await said('Told to stop');

  await t.go(page, '#/sessions/main/agent:main:whatsapp:group:family-sale');
  await page.getByRole('button', { name: 'To people' }).click();
  await page.locator('.verdict', { hasText: 'rule 2' }).waitFor();
  t.assert.equal(await page.getByLabel('Write to people on WhatsApp').isDisabled(), true);
  await page.locator('.verdict a').click();
  await page.locator('.rule.marked').waitFor();
  t.assert.match(await page.locator('.rule.marked input').first().inputValue(), /whatsapp/);

  // The policy: an edit is tried before it is saved.
  await page.locator('.try input').first().fill('whatsapp');
  await page.locator('.try select').selectOption('group');
  await page.locator('.try .badge', { hasText: 'deny' }).waitFor();
  await page.getByLabel('Remove rule 2').click();
  await page.locator('.try .badge', { hasText: 'allow' }).waitFor();
  await page.getByRole('button', { name: 'Compare' }).click();
  await page.getByText(/Decided otherwise in 1 of \d+ conversations/).waitFor();
  await page.locator('.lines a', { hasText: 'Flash sale group' }).waitFor();
  await page.getByRole('button', { name: 'Save…' }).click();
  await yes('Replace');
  await said('Replaced');

  await t.go(page, '#/sessions/main/agent:main:slack:direct:ada');
  await page.locator('.side-panel', { hasText: '156.7k of 200k' }).waitFor();
  await page.keyboard.press('i');
  await page.locator('.gauge', { hasText: '78 %' }).waitFor();
  await page.getByRole('button', { name: 'To people' }).click();
  await page.getByLabel('Write to people on Slack').fill('sent **by hand**');
  await page.keyboard.press('Enter');
  await page.locator('.thread strong', { hasText: 'by hand' }).waitFor();
  await page.keyboard.press('Escape');

  // Somebody else changes the session while the form is open: both changes are shown, nothing is lost.
  const S = t.S('agent:main:slack:direct:ada');
  await t.go(page, '#/sessions/main/agent:main:slack:direct:ada/session');
  await page.getByLabel('Task').fill('mine');
  await t.api('PATCH', S, { label: 'theirs' });
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  const conflict = page.locator('.conflict');
  await conflict.getByText('theirs').waitFor();
  await conflict.getByRole('button', { name: 'Save mine over it' }).click();
  await said('Saved');
  const now = await t.api('GET', S);
  t.assert.deepEqual([now.task, now.label], ['mine', 'theirs']);
  // The page resets what it shows: until it has read what was saved just now, it asks twice.
  await page.locator('dt:text-is("Revision") + dd', { hasText: String(now.rev) }).waitFor();

  await page.getByRole('button', { name: 'Reset…' }).click();
  await page.locator('dialog[open]', { hasText: 'move to an archive' }).waitFor();
  await yes('Reset');
  await said('Reset');
  await t.go(page, '#/sessions/main/agent:main:slack:direct:ada/history');
  await page.locator('.card a', { hasText: '.jsonl' }).first().click();
  await page.getByText('An archived transcript').waitFor();
  await page.locator('.thread', { hasText: 'by hand' }).waitFor();

  await t.go(page, '#/sessions/support/agent:support:signal:direct:+4477120/session');
  // Somebody else changes the session while the question is open: it is asked again, and nothing was done yet.
  await page.getByRole('button', { name: 'Archive…' }).click();
  await page.locator('dialog[open]', { hasText: 'Nothing is deleted' }).waitFor();
  const support = '/v1/agents/support/sessions/agent:support:signal:direct:%2B4477120';
  await t.api('PATCH', support, { label: 'changed by somebody else' });
  await yes('Archive');
  await page.locator('dialog[open]', { hasText: 'was changed meanwhile' }).waitFor();
  t.assert.equal((await t.api('GET', support)).archivedAt, undefined);
  await yes('Archive');
  await said('Archived');
  await page.getByRole('button', { name: 'Open again…' }).click();
  await yes('Open');
  await said('Opened');
  await page.getByRole('button', { name: 'Fork…' }).click();
  await yes('Fork');
  await said('Forked');
  await t.go(page, '#/sessions/support/agent:support:signal:direct:+4477120/session');
  // The page deletes what it shows: until it has read what was done just now, it asks twice.
  const { rev } = await t.api('GET', support);
  await page.locator('dt:text-is("Revision") + dd', { hasText: String(rev) }).waitFor();
  await page.getByRole('button', { name: 'Delete…' }).click();
  await yes('Delete');
  await said('Deleted');
  await page.getByRole('button', { name: 'Restore…' }).first().click();
  await yes('Restore');
  await said('Restored');

  await t.go(page, '#/admin/tokens');
  await page.getByText('Make a token').click();
  await page.getByLabel('Note').fill('made in the page');
  await page.getByRole('button', { name: 'Make it' }).click();
  await page.locator('.new-token code', { hasText: 'sd_' }).waitFor();
  await page
    .locator('tr', { hasText: 'made in the page' })
    .getByRole('button', { name: /Revoke/ })
    .click();
  await yes('Revoke');
  await said('Revoked');
  await t.go(page, '#/admin/maintenance');
  await page.getByRole('button', { name: 'Examine' }).click();
  await page.locator('.findings li').first().waitFor();
  await t.go(page, '#/audit?view=events&filter=token');
  await page.locator('.event', { hasText: 'token.revoked' }).first().click();
  await page.locator('dialog[open]', { hasText: '"type": "token.revoked"' }).waitFor();
  t.say(
    'approval, stop, retry, send, 412, reset, archive, fork, delete, restore, policy, token, doctor: done from the page',
  );
}
