// A person takes a conversation over, writes, is relieved by another one, and hands back: each sees who speaks, and the
// agent is asked what was left open.
export default async function (t) {
  const key = 'agent:main:slack:direct:taken',
    S = t.S(key);
  const say = text =>
    t.inbound({ peer: 'taken', text, from: { id: 'taken', name: 'Ilse' }, displayName: 'Ilse', activate: true });
  const claim = () => t.api('POST', '/v1/agents/main/runs/claim', { keyPrefix: key, waitMs: 5000, leaseMs: 60_000 });
  const finish = (run, text) =>
    t.api('POST', `${S}/runs/${run.runId}/finish`, {
      fence: run.lease.fence,
      status: 'done',
      entries: [{ type: 'message', message: { role: 'assistant', content: [{ type: 'text', text }] } }],
    });
  const hash = `#/sessions/main/${key}`;
  const at = (page, name) => page.locator('.conversation-head').getByRole('button', { name, exact: true });
  const dialog = page => page.locator('dialog[open]');

  await say('where is my parcel?');
  const first = await claim();
  const hanne = await t.signedIn(await t.browserContext(), await t.token('operator'), hash);
  await hanne.locator('.at-work').waitFor();

  // Only the agent is told: nothing goes out.
  await hanne.getByLabel('Tell main').fill('order 7714, if she asks');
  await hanne.keyboard.press('Enter');
  await hanne.locator('.toast', { hasText: 'main is told' }).waitFor();
  t.assert.equal((await t.api('GET', `/v1/deliveries?key=${encodeURIComponent(key)}`)).data.length, 0);

  await at(hanne, 'Take over').click();
  await dialog(hanne).getByLabel('Your name').fill(' Hanne ');
  await dialog(hanne)
    .getByLabel(/^Handed back by itself/)
    .selectOption('30 minutes');
  await dialog(hanne)
    .getByLabel(/^Stop what main does now/)
    .check();
  await dialog(hanne).getByRole('button', { name: 'Take over', exact: true }).click();
  await hanne.locator('.held', { hasText: 'You speak here' }).waitFor();
  await finish(first, 'too late');
  await hanne.locator('.mark', { hasText: 'Hanne took over' }).waitFor();
  await hanne.locator('.message', { hasText: 'Not sent: a person spoke in its place' }).waitFor();

  // While she speaks, no word reaches the agent, and the list says who waits.
  t.assert.equal(await hanne.getByRole('button', { name: 'To main' }).isDisabled(), true);
  await hanne.locator('[data-row]', { hasText: 'You speak, unanswered' }).waitFor();
  await hanne.getByLabel('Write to people on Slack').fill('It comes on Friday.');
  await hanne.keyboard.press('Enter');
  const word = hanne.locator('.thread .message', { hasText: 'It comes on Friday.' });
  await word.getByText('of the team').waitFor();
  await word.getByText('Hanne', { exact: true }).waitFor();

  const { since, until } = (await t.api('GET', S)).takeover;
  t.assert.ok(until - since < 3_600_000, 'a word does not change how long it lasts');

  // Another person sees it, and is told whose it is before taking it.
  const otto = await t.signedIn(await t.browserContext(), await t.token('operator'), hash);
  await otto.locator('.held', { hasText: 'Hanne speaks here' }).waitFor();
  t.assert.equal(await otto.getByLabel('Hanne speaks here').isDisabled(), true);
  await otto.locator('.held').getByRole('button', { name: 'Take it over' }).click();
  await dialog(otto).getByText('Hanne speaks here until').waitFor();
  await dialog(otto).getByLabel('Your name').fill('Otto');
  await dialog(otto).getByRole('button', { name: 'Take over from Hanne' }).click();
  await otto.locator('.held', { hasText: 'You speak here' }).waitFor();
  await hanne.locator('.held', { hasText: 'Otto speaks here' }).waitFor();
  t.assert.equal(await hanne.getByLabel('Otto speaks here').isDisabled(), true);

  // What is open is said before it is handed back, also when something comes in meanwhile.
  await at(otto, 'Hand back').click();
  await dialog(otto).getByLabel(/^Everything is answered/).waitFor();
  await say('and the invoice?');
  await dialog(otto)
    .locator('.choice', { hasText: 'main answers what came after my last message' })
    .getByText('and the invoice?')
    .waitFor();
  await dialog(otto)
    .getByLabel(/^A note for main/)
    .fill('The parcel is settled.');
  await dialog(otto).getByRole('button', { name: 'Hand back', exact: true }).click();
  await otto.locator('.held').waitFor({ state: 'detached' });
  await hanne.locator('.held').waitFor({ state: 'detached' });
  await otto.locator('.mark', { hasText: 'Otto handed back' }).waitFor();
  await otto.locator('.message', { hasText: 'The parcel is settled.' }).getByText('to main only').waitFor();
  // One run or two, as the queue joins them: all that the agent is asked, until the newest question.
  let asked = '';
  while (!asked.includes('and the invoice?')) {
    const run = await claim();
    for (const id of run.input) asked += JSON.stringify(await t.api('GET', `${S}/messages/${id}`));
    await finish(run, asked.includes('and the invoice?') ? 'The invoice is attached.' : 'Noted.');
  }
  t.assert.equal(asked.includes('where is my parcel?'), false, 'the person has answered it');
  await otto.locator('.thread .message', { hasText: 'The invoice is attached.' }).waitFor();

  // Held conversations are a filter, and leave it when they are handed back.
  await otto.getByRole('button', { name: 'Filters' }).click();
  await otto.getByRole('button', { name: 'Taken over' }).click();
  await otto.getByText('No session fits').waitFor();
  await t.api('POST', `${S}/takeover`, { name: 'Hanne' });
  await otto.locator('[data-row]', { hasText: 'Hanne speaks' }).waitFor();

  // Who may not do it is offered nothing, and sees who speaks.
  const viewer = await t.signedIn(await t.browserContext(), await t.token('viewer'), hash);
  await viewer.locator('.held', { hasText: 'Hanne speaks here' }).waitFor();
  for (const name of ['Take over', 'Hand back', 'Stop']) t.assert.equal(await at(viewer, name).count(), 0, name);
  t.assert.equal(await viewer.locator('.held button').count(), 0);

  // Another token of the same name holds nothing, and is offered to take it.
  const same = await t.signedIn(await t.browserContext(), await t.token('operator'), hash);
  await same.evaluate(() => localStorage.setItem('sessiond.name', 'Hanne'));
  await same.reload();
  await same.locator('.held', { hasText: 'Hanne speaks here' }).getByRole('button', { name: 'Take it over' }).waitFor();
  t.assert.equal(await same.getByLabel('Hanne speaks here').isDisabled(), true);
  t.say(
    'took over, stopped the run, wrote, was relieved, handed back with a note: the agent was asked what was open only',
  );
}
