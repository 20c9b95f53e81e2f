// What a token may not do is not offered; what it may not see is not in the page.
export default async function (t) {
  // A channel of its own: among the sessions of other tests a row may be far down.
  const mine = { channel: 'roles', peer: 'mine', from: { id: 'mine', name: 'Mine' } };
  await t.inbound({ ...mine, text: 'in sight' });
  await t.inbound({ channel: 'discord', peer: 'other', text: 'out of sight', from: { id: 'other', name: 'Other' } });
  const viewer = await t.signedIn(await t.browserContext(), await t.token('viewer', { channel: 'roles' }));
  await viewer.locator('[data-row]', { hasText: 'in sight' }).waitFor();
  await t.inbound({
    channel: 'discord',
    peer: 'other',
    text: 'out of sight, live',
    from: { id: 'other', name: 'Other' },
  });
  await t.inbound({ ...mine, text: 'in sight, live' });
  await t.eventually(
    async () => (await viewer.locator('[data-row]', { hasText: 'in sight' }).innerText()).includes('2'),
    'the second message',
  );
  t.assert.equal((await viewer.content()).includes('out of sight'), false);
  for (const name of ['Policy', 'Settings'])
    t.assert.equal(await viewer.locator('.rail').getByText(name, { exact: true }).count(), 0, name);
  await viewer.locator('[data-row]', { hasText: 'in sight' }).click();
  await viewer.locator('.thread', { hasText: 'in sight, live' }).waitFor();
  t.assert.equal(await viewer.locator('.composer').count(), 0, 'a viewer sends nothing');
  for (const [hash, words] of [
    ['#/admin', 'Not for this token'],
    ['#/sessions/main/agent:main:discord:direct:other', 'It is not there'],
    ['#/policy', 'may not see'],
  ]) {
    await t.go(viewer, hash);
    await viewer.locator('main').getByText(words).first().waitFor();
  }
  await t.go(viewer, '#/work');
  await viewer.locator('.counter.asking').waitFor();
  t.assert.equal(await viewer.getByRole('button', { name: /^(Stop|Send again)/ }).count(), 0);
  const operator = await t.signedIn(await t.browserContext(), await t.token('operator'), '#/admin');
  await operator.getByRole('link', { name: 'Maintenance' }).waitFor();
  t.assert.equal(await operator.getByRole('link', { name: 'Tokens' }).count(), 0);
  // Requests are for who may see the audit log; names of tokens only for who may see tokens; events for everybody.
  await t.go(operator, '#/audit');
  await operator.locator('.audit-row a').first().waitFor();
  await t.go(viewer, '#/audit?view=requests');
  await viewer.locator('#events').waitFor();
  t.assert.equal(await viewer.getByRole('button', { name: 'Requests' }).count(), 0);
  const runner = await t.signedIn(await t.browserContext(), await t.token('runner', { channel: 'roles' }));
  await runner.locator('[data-row]', { hasText: 'Mine' }).first().click();
  await runner.locator('.composer').waitFor();
}
