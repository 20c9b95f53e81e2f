// 40 hostile texts through every field that people, agents and bridges fill: none runs, none makes an element, none is lost.
const RUN = 'window.hit=1';
const HOSTILE = [
  `<script>${RUN}</script>`,
  `<img src=x onerror=${RUN}>`,
  `<svg onload=${RUN}>`,
  `<svg><script>${RUN}</script></svg>`,
  `"><script>${RUN}</script>`,
  `'><img src=x onerror=${RUN}>`,
  `<iframe src="javascript:${RUN}"></iframe>`,
  `<a href="javascript:${RUN}">x</a>`,
  `[x](javascript:${RUN})`,
  `[x](JaVaScRiPt:${RUN})`,
  `[x](data:text/html,<script>${RUN}</script>)`,
  `![x](x"onerror="${RUN})`,
  `![x](javascript:${RUN})`,
  `<javascript:${RUN}>`,
  `[x]: javascript:${RUN}\n[x]`,
  `<math><mtext></table><mglyph><style><img src=x onerror=${RUN}>`,
  `<form><button formaction=javascript:${RUN}>x`,
  `<input autofocus onfocus=${RUN}>`,
  `<details open ontoggle=${RUN}>x`,
  `<video><source onerror=${RUN}>`,
  `<body onload=${RUN}>`,
  `<style>@import 'http://127.0.0.1:9/x.css'</style>`,
  `<link rel=stylesheet href=//127.0.0.1:9/x>`,
  `<meta http-equiv=refresh content="0;url=javascript:${RUN}">`,
  `<base href=//127.0.0.1:9/>`,
  `<object data="javascript:${RUN}">`,
  `<embed src="javascript:${RUN}">`,
  '```html\n<script>window.hit=1</script>\n```',
  '`<img src=x onerror=window.hit=1>`',
  `</textarea><script>${RUN}</script>`,
  `</title><script>${RUN}</script>`,
  `<noscript><p title="</noscript><img src=x onerror=${RUN}>">`,
  `<template><script>${RUN}</script></template>`,
  `\u202e<script>${RUN}</script>`,
  `<scr\u0000ipt>${RUN}</scr\u0000ipt>`,
  `{{constructor.constructor('${RUN}')()}}`,
  `\${${RUN}}`,
  `<svg><a xlink:href="javascript:${RUN}"><text>x</text></a></svg>`,
  `<x style="background:url(//127.0.0.1:9/x)">y</x>`,
  `__proto__[x]=<b>${'𝕏'.repeat(300)}`,
];

export default async function (t) {
  const reports = [];
  const context = await t.browserContext();
  await context.exposeBinding('reported', (_source, report) => reports.push(report));
  await context.addInitScript(() =>
    addEventListener('securitypolicyviolation', event =>
      window.reported(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`),
    ),
  );
  const keys = [];
  for (const [n, text] of HOSTILE.entries()) {
    const clean = text.replaceAll('\u0000', '');
    const { sessionKey: key } = await t.inbound({
      channel: 'slack',
      peer: `h${n}`,
      text,
      from: { id: clean, name: clean, username: clean },
      subject: clean,
      displayName: clean,
      label: clean.slice(0, 200),
    });
    await t.api('POST', t.S(key, '/messages'), {
      entries: [
        {
          role: 'assistant',
          model: text,
          content: [
            { type: 'thinking', thinking: text },
            { type: 'text', text },
            { type: 'toolCall', id: 'c', name: clean, arguments: { command: text, [clean]: text } },
            { type: 'image', mimeType: 'image/svg+xml', data: Buffer.from(text).toString('base64') },
            { type: 'image_url', image_url: { url: `javascript:${RUN}` } },
          ],
        },
        { role: 'toolResult', toolCallId: 'c', toolName: clean, content: [{ type: 'text', text }] },
        {
          role: 'assistant',
          content: [{ type: clean.slice(0, 60) || 'x', text }],
          stopReason: 'error',
          errorMessage: text,
        },
        { type: 'compaction', summary: text },
        { type: 'custom', customType: 'x', data: { text } },
      ],
    });
    await t.api('PATCH', t.S(key), { name: `${n} ${clean}`.slice(0, 200), task: clean });
    keys.push(key);
  }
  const page = await t.signedIn(context);
  await page.locator('[data-row]').first().waitFor();
  const bad = () =>
    page.evaluate(() =>
      [
        ...document.querySelectorAll(
          'script:not([src^="/assets/"]), iframe, object, embed, base, form[action], svg script, link:not([href^="/assets/"]), style, img:not([src^="data:image/"]):not([src*="/assets/icon-"]), [onload], [onerror], [onfocus], [ontoggle], a[href^="javascript" i], a[href^="data" i]',
        ),
      ].map(element => element.outerHTML.slice(0, 200)),
    );
  for (const [n, key] of keys.entries()) {
    await t.go(page, `#/sessions/main/${key}`);
    await page.locator('.thread .message').first().waitFor();
    await page.evaluate(() => {
      for (const one of document.querySelectorAll('details')) one.open = true;
    });
    t.assert.deepEqual(await bad(), [], HOSTILE[n]);
    t.assert.equal(await page.evaluate(() => window.hit), undefined, HOSTILE[n]);
  }
  for (const hash of [
    `#/sessions/main/${keys[0]}?llm=1`,
    `#/sessions/main/${keys[1]}/session`,
    `#/sessions/main/${keys[2]}/runs`,
    '#/work',
    '#/audit?view=events',
    `#/audit?view=events&filter=${encodeURIComponent(HOSTILE[1])}`,
    `#/search?q=${encodeURIComponent(HOSTILE[1])}`,
    '#/policy',
    '#/audit',
    `#/audit?actor=${encodeURIComponent(HOSTILE[1])}&key=${encodeURIComponent(HOSTILE[0])}&code=${encodeURIComponent(HOSTILE[2])}`,
  ]) {
    await t.go(page, hash);
    await page.waitForTimeout(120);
    t.assert.deepEqual(await bad(), [], hash);
  }
  t.assert.equal(await page.evaluate(() => window.hit), undefined);
  t.assert.deepEqual(reports, [], 'the policy had to stop something');
  t.say(`${HOSTILE.length} hostile texts, each in 14 fields: none ran, no report of the policy`);
}
