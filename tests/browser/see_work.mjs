// The way of a message: it waits, is worked on, asks a person, is sent, fails, and each stage says what is to be done.
export default async function (t) {
  const S = t.S('agent:main:chat:direct:way');
  const say = text =>
    t.inbound({
      channel: 'chat',
      peer: 'way',
      text,
      from: { id: 'way', name: 'Ilse' },
      displayName: 'Ilse',
      activate: true,
    });
  const page = await t.signedIn(await t.browserContext(), t.admin, '#/work');
  const rows = group =>
    page.getByRole('region', { name: group, exact: true }).locator('.work-row', { hasText: 'Ilse' });
  const count = stage => page.locator(`.counter.${stage} strong`);
  const events = (run, n, ...list) =>
    t.api('POST', `${S}/runs/${run.runId}/events`, { fence: run.lease.fence, n, events: list });

  // A bridge is there, so that answers are kept for it.
  await t.api('POST', '/v1/deliveries/claim', { channel: 'chat' });
  await say('where is my parcel?');
  await rows('Waiting').getByText('where is my parcel?').waitFor();
  const run = await t.api('POST', '/v1/agents/main/runs/claim', {
    keyPrefix: 'agent:main:chat:direct:way',
    waitMs: 5000,
    leaseMs: 60_000,
    runner: 'parcels-1',
  });
  await rows('Working').getByText('parcels-1').waitFor();
  await events(
    run,
    1,
    { type: 'step.started', step: 1 },
    { type: 'tool.started', tool: 'track', args: {}, callId: 'c1' },
  );
  await rows('Working').getByText('track, step 1').waitFor();
  await events(run, 2, { type: 'tool.finished', tool: 'track', callId: 'c1', success: true });

  // Behind it waits what came meanwhile.
  await say('and my second one?');
  await rows('Waiting').getByText('Waits behind what is at work').waitFor();

  // What it asks for stands in a stage of its own, until it is answered. Long arguments are read to their end first.
  const args = { address: 'Elm Street 5', note: 'x\n'.repeat(200), last: 'the end' };
  const asked = await t.api('POST', `${S}/approvals`, {
    runId: run.runId,
    fence: run.lease.fence,
    tool: 'reroute',
    args,
    timeoutMs: 600_000,
  });
  await rows('Asking').getByText('asks to use reroute').waitFor();
  t.assert.equal(await rows('Working').count(), 0);
  const phone = await t.signedIn(
    await t.browserContext({ viewport: { width: 390, height: 844 }, hasTouch: true }),
    await t.token('operator'),
    `#/sessions/main/agent:main:chat:direct:way/a/${asked.id}`,
  );
  const sheet = phone.locator('dialog.sheet');
  await sheet.getByText('Elm Street 5').waitFor();
  await sheet.getByText('Read the arguments to their end').waitFor();
  t.assert.equal(await sheet.getByRole('button', { name: 'Allow once' }).isDisabled(), true);
  await sheet.getByText('the end').scrollIntoViewIfNeeded();
  await sheet.locator('.end').scrollIntoViewIfNeeded();
  await sheet.getByRole('button', { name: 'Allow once' }).click();
  await sheet.getByText(/^Allowed by/).waitFor();
  await rows('Working').waitFor();
  t.assert.equal((await t.api('GET', `${S}/approvals/${asked.id}`)).decision, 'allow');
  await phone.keyboard.press('Escape');
  await phone.locator('.thread .approval-line', { hasText: 'reroute' }).waitFor();

  // A hint within the turn reaches its runner; the details say whose turn it is.
  await t.go(page, '#/sessions/main/agent:main:chat:direct:way');
  const details = page.getByRole('region', { name: 'Details' });
  await details.getByText('parcels-1').waitFor();
  await details.getByText('1 of at most 10').waitFor();
  await details.getByText('way, Chat').waitFor();
  await details.getByText('and my second one?').waitFor();
  await page.getByLabel('Within what it does now').check();
  await page.getByLabel('Tell main').fill('offer her a voucher');
  await page.keyboard.press('Enter');
  await page.locator('.toast', { hasText: 'main is told' }).waitFor();
  t.assert.deepEqual(
    (await events(run, 3)).steer.map(one => one.text),
    ['offer her a voucher'],
  );
  await t.go(page, '#/work');

  await t.api('POST', `${S}/runs/${run.runId}/finish`, {
    fence: run.lease.fence,
    status: 'done',
    entries: [{ role: 'assistant', text: 'It comes on Friday.' }],
  });
  await rows('Sending').getByText('It comes on Friday.').waitFor();
  await t.go(page, '#/sessions/main/agent:main:chat:direct:way');
  await page
    .locator('.thread .message', { hasText: 'It comes on Friday.' })
    .locator('footer', { hasText: /\d s · 1 step/ })
    .waitFor();
  await t.go(page, '#/work');
  const claim = async () => (await t.api('POST', '/v1/deliveries/claim', { channel: 'chat', waitMs: 5000 })).data[0];
  const nack = (delivery, error, more) =>
    t.api('POST', `/v1/deliveries/${delivery.deliveryId}/nack`, { attempt: delivery.attempt, error, ...more });
  await nack(await claim(), { code: '429', message: 'Too Many Requests' }, { retryAfterMs: 0 });
  await rows('Sending').getByText('Too Many Requests').waitFor();
  await nack(await claim(), { code: '50001', message: 'Missing Access' }, { final: true });
  await rows('Failed').getByText('2 tries').waitFor();
  await page.locator('.counter.failed').click();
  t.assert.match(page.url(), /stage=failed/);
  await rows('Failed').locator('a').click();
  const delivery = page.getByRole('region', { name: 'Delivery' });
  await delivery.getByText('Chat refused it: Missing Access').waitFor();
  await delivery.getByText('The bot cannot see this channel any more').waitFor();
  await delivery.getByText('It comes on Friday.').waitFor();
  t.assert.deepEqual(await delivery.locator('.tries li b').allInnerTexts(), ['Try 1', 'Try 2']);
  await delivery.getByRole('button', { name: 'Send again' }).click();
  const last = await claim();
  await t.api('POST', `/v1/deliveries/${last.deliveryId}/ack`, { platformMessageId: 'p1' });
  await delivery.getByText('It was sent').waitFor();
  await page.keyboard.press('Escape');
  await delivery.waitFor({ state: 'detached' });
  await page.locator('.counter.failed').click();
  await rows('Sent').waitFor();
  await count('failed').getByText('0', { exact: true }).waitFor();

  // A link to one delivery opens it, and one that is gone says so.
  await t.go(page, `#/work/d/${last.deliveryId}`);
  await delivery.getByText('It was sent').waitFor();
  await t.go(page, '#/work/d/0000000000000000');
  await delivery.getByText('It is not there.').waitFor();
  t.say(
    'waiting, working, asking, sending, failed, sent: each stage says what is to be done, and a hint joined the turn',
  );
}
