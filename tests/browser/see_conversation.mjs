// Fault 35: the page shows who spoke and hides nothing: thinking, calls with their results, images, errors, compactions.
export default async function (t) {
  const page = await t.signedIn(await t.browserContext(), await t.token('viewer'));
  const { sessionKey: key } = await t.inbound({
    chatType: 'group',
    peer: 'g',
    text: 'who is <b>there</b>',
    attachments: [{ type: 'file', name: 'a.pdf' }],
    from: 'U-one',
  });
  await t.api('POST', t.S(key, '/messages'), {
    entries: [
      {
        role: 'assistant',
        model: 'model-x',
        usage: { input: 1200, output: 34, cost: { total: 0.5 } },
        content: [
          { type: 'thinking', thinking: 'let me think' },
          { type: 'toolCall', id: 'c1', name: 'bash', arguments: { command: 'ls <i>x</i>' } },
        ],
      },
      {
        role: 'toolResult',
        toolCallId: 'c1',
        toolName: 'bash',
        isError: true,
        content: [{ type: 'text', text: 'no such file' }],
      },
      {
        role: 'assistant',
        content: [
          {
            type: 'image',
            mimeType: 'image/png',
            data: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
          },
        ],
      },
      { role: 'assistant', content: [], stopReason: 'error', errorMessage: 'the model is away' },
      { role: 'assistant', content: [{ type: 'text', text: 'half an ans' }], stopReason: 'aborted' },
      { type: 'compaction', summary: 'what was said' },
    ],
  });
  await t.go(page, `#/sessions/main/${key}`);
  const thread = page.locator('.thread');
  for (const text of [
    'U-one',
    'who is <b>there</b>',
    '[attachment]',
    'the model is away',
    'Interrupted',
    'Compacted',
    'model-x',
    '$0.50',
  ])
    await thread.getByText(text, { exact: false }).first().waitFor();
  await thread.getByText('Thinking').click();
  await thread.getByText('let me think').waitFor();
  const call = thread.locator('.tool-call', { hasText: 'ls <i>x</i>' });
  await call.getByText('failed').waitFor();
  await call.locator('summary').click();
  await call.getByLabel('Result').getByText('no such file').waitFor();
  await thread.locator('img.shot').waitFor();
  await thread.getByText('Compacted').click();
  await thread.getByText('what was said').waitFor();
  t.assert.equal(await thread.locator('b, i:not([aria-hidden])').count(), 0, 'what people write is no HTML');
  await t.api('POST', t.S(key, '/messages'), { role: 'assistant', content: [{ type: 'text', text: 'live **now**' }] });
  await thread.locator('strong', { hasText: 'now' }).waitFor();

  // Of a long result the first lines, and the rest when it is asked for.
  const lines = Array.from({ length: 30 }, (_, n) => `line ${n + 1}`).join('\n');
  await t.api('POST', t.S(key, '/messages'), {
    entries: [
      { role: 'assistant', content: [{ type: 'toolCall', id: 'c2', name: 'list', arguments: {} }] },
      { role: 'toolResult', toolCallId: 'c2', toolName: 'list', content: lines },
    ],
  });
  const long = thread.locator('.tool-call', { hasText: 'list' });
  await long.locator('summary').click();
  await long.getByText('line 12').waitFor();
  t.assert.equal(await long.getByText('line 13').count(), 0);
  await long.getByRole('button', { name: '18 more lines' }).click();
  await long.getByText('line 30').waitFor();

  // How a run went stands at the answer that it ended with; what a person stopped says so.
  const run = async (text, end) => {
    const begun = await t.api('POST', t.S(key, '/runs'), { input: { role: 'user', text } });
    const at = t.S(key, `/runs/${begun.runId}`),
      { fence } = begun.lease;
    await t.api('POST', `${at}/events`, { fence, n: 1, events: [{ type: 'step.started', step: 1 }] });
    if (end === 'interrupted') await t.api('POST', t.S(key, '/abort'), {});
    const entries = end === 'done' ? [{ role: 'assistant', text: `answer to ${text}` }] : [];
    await t.api('POST', `${at}/finish`, { fence, status: end, entries });
  };
  await run('a question', 'done');
  await thread
    .locator('.message', { hasText: 'answer to a question' })
    .locator('footer', { hasText: /\d s · 1 step/ })
    .waitFor();
  await run('another one', 'interrupted');
  await thread
    .locator('.mark', { hasText: /^Stopped by .+ after \d+:\d\d\. What it had written was not sent\.$/ })
    .waitFor();
}
