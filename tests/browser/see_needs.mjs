// The list: what needs a person stands first, then what is at work, then the rest. Nothing moves under a hand.
export default async function (t) {
  const person = (peer, name, text, more = {}) =>
    t.inbound({ channel: 'needs', peer, text, from: { id: peer, name }, displayName: name, ...more });
  const keyOf = peer => `agent:main:needs:direct:${peer}`;
  const answer = peer =>
    t.api('POST', t.S(keyOf(peer), '/messages'), { role: 'assistant', content: [{ type: 'text', text: 'Done.' }] });
  const run = (peer, runId) =>
    t.api('POST', t.S(keyOf(peer), '/runs'), { runId, leaseMs: 600_000, whenBusy: 'interrupt' });
  for (const [peer, name] of [
    ['a1', 'Anna'],
    ['b1', 'Boris'],
    ['c1', 'Clara'],
    ['d1', 'Dora'],
    ['e1', 'Emil'],
  ])
    await person(peer, name, `hello of ${name}`, { activate: false });
  for (const peer of ['a1', 'b1', 'd1', 'e1']) await answer(peer);
  await person('c1', 'Clara', 'is anybody there?');
  await run('d1', 'needs-d');
  const held = await run('b1', 'needs-b');
  await t.api('POST', t.S(keyOf('b1'), '/approvals'), {
    runId: 'needs-b',
    fence: held.lease.fence,
    tool: 'deploy',
    callId: 'n1',
    args: {},
    timeoutMs: 600_000,
  });
  const page = await t.signedIn(await t.browserContext(), await t.token('operator', { channel: 'needs' }));
  const order = () =>
    page.evaluate(() =>
      [...document.querySelectorAll('#sessions :is(.group-head h2, .session .title)')].map(one =>
        one.textContent.replace(/\d+$/, '').trim(),
      ),
    );
  const isShown = wanted =>
    t.eventually(async () => JSON.stringify(await order()) === JSON.stringify(wanted), JSON.stringify(wanted));
  await isShown(['Needs you', 'Boris', 'Clara', 'Working', 'Dora', 'Earlier', 'Emil', 'Anna']);
  await page.locator('[data-row]', { hasText: 'asks to use deploy' }).waitFor();

  // A hand is over the list: what comes in is shown in its row, and the row stays where it is.
  await page.evaluate(() => {
    window.movedAt = 0;
    addEventListener('pointermove', () => (window.movedAt = Date.now()));
  });
  const before = await order(),
    box = await page.locator('[data-row]', { hasText: 'Emil' }).boundingBox();
  await page.mouse.move(box.x + 20, box.y + 10);
  await person('a1', 'Anna', 'one more thing', { activate: false });
  let nudge = 0;
  await t.eventually(async () => {
    await page.mouse.move(box.x + 20, box.y + 10 + (nudge++ % 2));
    const seen = await page.evaluate(name => {
      const row = [...document.querySelectorAll('[data-row]')].find(one => one.textContent.includes(name));
      return { fresh: !!row.querySelector('.count'), still: Date.now() - window.movedAt < 2000 };
    }, 'Anna');
    return seen.fresh && seen.still && JSON.stringify(await order()) === JSON.stringify(before);
  }, 'the new message in a row that did not move');
  await isShown(['Needs you', 'Boris', 'Clara', 'Working', 'Dora', 'Earlier', 'Anna', 'Emil']);

  // What was done leaves the group, live.
  const asked = await t.api('POST', '/v1/agents/main/runs/claim', { keyPrefix: keyOf('c1'), waitMs: 5000 });
  await t.api('POST', t.S(keyOf('c1'), `/runs/${asked.runId}/finish`), {
    fence: asked.lease.fence,
    status: 'done',
    entries: [{ type: 'message', message: { role: 'assistant', content: [{ type: 'text', text: 'I am.' }] } }],
  });
  await page.locator('[data-row]', { hasText: 'Boris' }).click();
  await page.locator('.thread .approval').getByRole('button', { name: 'Deny' }).click();
  await isShown(['Working', 'Boris', 'Dora', 'Earlier', 'Clara', 'Anna', 'Emil']);
  await t.api('POST', t.S(keyOf('b1'), '/runs/needs-b/finish'), { fence: held.lease.fence, status: 'done' });
  await isShown(['Working', 'Dora', 'Earlier', 'Boris', 'Clara', 'Anna', 'Emil']);
  t.say('needs first, then work, then the rest; a row under the pointer stays until the hand rests');
}
