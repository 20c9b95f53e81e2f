// Runs one scenario of the dashboard in headless Chromium: node dashboard.mjs SCENARIO, with SESSIOND_URL and SESSIOND_TOKEN
// (an admin's) in the environment. A scenario is the file `see_<name>.mjs`; what it gets is below. What only the starter of the
// daemon can do (kill it) is asked for on stdout and answered on stdin, one JSON object a line.
import { chromium } from 'playwright-core';
import assert from 'node:assert/strict';
import readline from 'node:readline';

const url = process.env.SESSIOND_URL,
  admin = process.env.SESSIOND_TOKEN,
  slow = Number(process.env.SESSIOND_TEST_SLOW ?? 1);
const program = process.env.CHROMIUM;
const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function api(method, path, body, headers = {}) {
  const reply = await fetch(url + path, {
    method,
    headers: {
      Authorization: `Bearer ${admin}`,
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await reply.text();
  assert.ok(reply.ok, `${method} ${path}: ${reply.status} ${text}`);
  return text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : text;
}

const faults = []; // what a page complained of: errors, refusals of its policy
function watch(page) {
  page.setDefaultTimeout(10_000 * slow);
  page.on('pageerror', error => faults.push(`error in the page: ${error.stack}`));
  page.on('console', message => {
    if (/Content Security Policy|Trusted/i.test(message.text())) faults.push(message.text());
  });
}

const t = {
  url,
  admin,
  slow,
  api,
  assert,
  faults,
  say: line => console.log(JSON.stringify({ say: line })),
  S: (key, rest = '') => `/v1/agents/main/sessions/${encodeURIComponent(key)}${rest}`,
  inbound: more =>
    api('POST', '/v1/inbound', {
      channel: 'slack',
      chatType: 'direct',
      peer: 'u1',
      from: { id: 'u1', name: 'Ada' },
      text: 'hello',
      ...more,
    }),
  token: async (role, more = {}) => (await api('POST', '/v1/admin/tokens', { role, ...more })).token,
  async daemon(what) {
    console.log(JSON.stringify({ do: what }));
    assert.equal((await answers.next()).value, 'done');
  },
  async browserContext(more = {}) {
    const context = await t.browser.newContext({
      viewport: { width: 1440, height: 900 },
      reducedMotion: 'reduce',
      locale: 'en-GB',
      ...more,
    });
    context.on('page', watch);
    return context;
  },
  // A page that is signed in, at `hash`.
  async signedIn(context, token = admin, hash = '#/') {
    const page = await context.newPage();
    await page.goto(`${url}/#token=${token}`);
    await page.locator('#state.live').waitFor();
    if (hash !== '#/') await t.go(page, hash);
    return page;
  },
  go: (page, hash) =>
    page.evaluate(to => {
      location.hash = to;
    }, hash),
  async eventually(check, what, ms = 10_000) {
    for (const end = Date.now() + ms * slow; ;) {
      const got = await check();
      if (got) return got;
      if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
      await new Promise(resolve => setTimeout(resolve, 25));
    }
  },
};

const scenario = (await import(`./see_${process.argv[2]}.mjs`)).default;
t.browser = await chromium.launch({
  executablePath: program,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
});
let page;
try {
  await scenario(t);
  assert.deepEqual(faults, []);
} catch (error) {
  page = t.browser
    .contexts()
    .flatMap(context => context.pages())
    .at(-1);
  console.error(error.stack, faults.join('\n'));
  console.error(
    'the page says:',
    (await page?.evaluate(() => document.body.innerText).catch(() => ''))?.slice(0, 2000),
  );
  process.exitCode = 1;
} finally {
  await t.browser.close();
  process.stdin.destroy();
}
