// Health: an invented hour is drawn with its cause, what is wrong stands in sentences with links, and who may not measure sees readiness only.
const EVERY = 10_000,
  HOUR = 360;

// The hour that ends at `end`: one lock wait, a stream that falls behind, a run that nobody takes.
function hourUntil(end, startedAt, after) {
  const newest = Math.floor((end - startedAt) / EVERY); // the number of the last sample
  const numbers = Array.from({ length: HOUR }, (_, n) => newest - (HOUR - 1 - n)).filter(one => one > after),
    at = numbers.map(one => end - (newest - one) * EVERY);
  const n = one => HOUR - 1 - (end - one) / EVERY,
    column = of => at.map(one => of(n(one)));
  return {
    everyMs: EVERY,
    startedAt,
    n: numbers,
    at,
    requests: column(() => 60),
    commits: column(() => 38),
    requestP50Ms: column(() => 0.6),
    requestP99Ms: column(() => 4.1),
    syncMs: column(m => (m % 7 === 2 ? null : 0.9)), // the newest is one of those in which nothing was written
    syncP99Ms: column(m => (m % 7 === 2 ? null : 1.8)),
    commitsPerBatch: column(() => 2),
    connections: column(() => 31),
    streams: column(() => 9),
    streamLagEvents: column(m => (m < 300 ? 0 : Math.round((m - 300) * 21.7627))),
    checkpointLagMs: column(m => (m >= 280 && m < 300 ? (m - 279) * 2000 : 300)),
    lockWaits: column(m => (m >= 280 && m < 300 ? 1 : 0)),
    oldestRunMs: column(m => Math.max(0, (m - 155) * EVERY)),
    oldestDeliveryMs: column(() => 0),
    runsActive: column(() => 3),
    runsQueued: column(() => 1),
  };
}

const READY = {
  status: 'ready',
  reasons: [],
  checkpointLagMs: 300,
  journalCheck: null,
  idempotencyTruncated: false,
  repairs: [],
  failedDeliveries: 2,
  damage: [],
  degraded: [],
  loading: [],
  unindexed: [],
  search: null,
  unwatched: null,
  asOf: 'e-1',
};

// Answers for the daemon; returns what was asked, and what may be changed.
async function invent(context) {
  const told = {
    end: Date.now() - 1,
    startedAt: Date.now() - 6 * 86_400_000,
    ready: READY,
    asked: [],
  };
  await context.route('**/v1/metrics/history*', route => {
    const after = Number(new URL(route.request().url()).searchParams.get('after') ?? 0);
    told.asked.push(after);
    return route.fulfill({ json: hourUntil(told.end, told.startedAt, after) });
  });
  await context.route('**/readyz', route =>
    route.fulfill({
      json: told.ready,
      status: told.ready.status === 'ready' ? 200 : 503,
    }),
  );
  return told;
}

export default async function (t) {
  const context = await t.browserContext(),
    told = await invent(context),
    page = await t.signedIn(context, t.admin, '#/health'),
    chart = title => page.locator('figure.chart', { hasText: title });
  const head = async (title, words, tone) => {
    await chart(title).locator('figcaption > b', { hasText: words }).waitFor();
    const given = await chart(title).locator('figcaption > b').getAttribute('class');
    t.assert.equal(given.trim(), tone ? `num ${tone}-text` : 'num', title);
  };
  await head('Streams behind', '1,284 events', 'warn');
  await head('Oldest waiting', '34 min', 'bad');
  await head('sessions.json behind', '300 ms');
  await head('Requests', 'p99 4.1 ms');
  await head('Commits a second', '38');
  t.assert.equal(await page.locator('figure.chart canvas').count(), 6);

  // The address keeps the range; a lock that was waited for is a band, in words and for who does not see it.
  const hour = page.getByRole('button', { name: '1 h', exact: true });
  t.assert.equal(await hour.getAttribute('aria-pressed'), 'false');
  await hour.focus();
  await page.keyboard.press('Enter');
  await page.locator('[aria-pressed=true]', { hasText: '1 h' }).waitFor();
  t.assert.equal(await page.evaluate(() => location.hash), '#/health?range=1h');
  await chart('sessions.json behind').locator('.band', { hasText: 'waited for a lock of another program' }).waitFor();
  t.assert.match(
    await chart('sessions.json behind').locator('[role=img]').getAttribute('aria-label'),
    /waited for a lock of another program, \d\d:\d\d to \d\d:\d\d$/,
  );
  t.assert.equal(await page.locator('.chart .band').count(), 1);
  t.assert.equal((await page.locator('main').innerText()).includes('after a moment'), false);

  // What is wrong is a sentence that leads to where one can act.
  const readiness = page.getByRole('region', {
    name: 'Readiness',
    exact: true,
  });
  await readiness.getByRole('heading', { name: 'Ready, with 2 remarks' }).waitFor();
  await readiness
    .locator('li', {
      hasText: /^A run has waited since \d\d:\d\d, and no runner takes it\. Is the runner of its agent at work\?$/,
    })
    .waitFor();
  for (const link of await readiness.locator('li a').all()) t.assert.match(await link.getAttribute('href'), /^#\/work/);
  await page.locator('.health-facts div', { hasText: 'Runs' }).getByText('3 active, 1 waiting').waitFor();

  // After the first time only what came since is read; another start of the daemon begins anew.
  const first = Math.floor((told.end - told.startedAt) / EVERY),
    waited = told.asked.length;
  await readiness.getByRole('link', { name: '2 deliveries failed' }).click();
  await page.locator('main h1', { hasText: 'Work' }).waitFor();
  told.end += EVERY;
  told.ready = {
    ...READY,
    status: 'unready',
    failedDeliveries: 0,
    reasons: ['not writable: the disk is full\u202e'],
  };
  await t.go(page, '#/health?range=1h');
  await t.eventually(() => told.asked.length > waited, 'another reading');
  t.assert.deepEqual([told.asked[0], told.asked[waited]], [0, first]);
  await head('fsync', 'idle');
  await readiness.getByRole('heading', { name: 'Not ready, with 2 remarks' }).waitFor();
  await readiness.getByText('New messages are not stored: the disk is full\\u202e.').waitFor();
  told.startedAt = told.end - 5 * EVERY;
  await t.go(page, '#/work');
  await page.locator('main h1', { hasText: 'Work' }).waitFor();
  await t.go(page, '#/health?range=1h');
  await page.getByText(/^Since \d\d:\d\d, when the daemon started\./).waitFor();

  // Three columns, two, one; the tables beside each other, then below.
  const columns = () =>
    page.locator('figure.chart').evaluateAll(all => new Set(all.map(one => one.getBoundingClientRect().left)).size);
  const aside = () =>
    page
      .locator('.health-tables > section')
      .evaluateAll(([a, b]) => a.getBoundingClientRect().top === b.getBoundingClientRect().top);
  await page.locator('.health-table').last().waitFor();
  for (const [width, of, beside] of [
    [1100, 3, true],
    [1099, 2, false],
    [700, 2, false],
    [699, 1, false],
  ]) {
    await page.setViewportSize({ width, height: 900 });
    await t.eventually(async () => (await columns()) === of && (await aside()) === beside, `${of} columns at ${width}`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });

  // The two things that one does by hand about the files.
  await page.getByRole('button', { name: 'Examine files' }).click();
  await page.locator('dialog[open] .findings li').first().waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog[open]').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Write files now' }).click();
  await page.locator('.toast', { hasText: 'The files hold the journal now' }).waitFor();
  const streams = page.getByRole('region', { name: 'Table of streams' });
  await streams
    .locator('tr', { hasText: 'live' })
    .getByRole('button', { name: /^Close the stream of / })
    .first()
    .click();
  await page.locator('dialog[open]', { hasText: 'Close the stream' }).getByRole('button', { name: 'Cancel' }).click();

  // The daemon's own hour; and who may not read metrics.
  const own = await t.signedIn(await t.browserContext(), t.admin, '#/health');
  await own.locator('figure.chart canvas').nth(5).waitFor();
  const viewer = await t.signedIn(await t.browserContext(), await t.token('viewer'), '#/health');
  await viewer.locator('.readiness h2', { hasText: /^Ready/ }).waitFor();
  for (const drawn of ['figure.chart', '.health-facts', '.health-table', '.view-head button'])
    t.assert.equal(await viewer.locator(drawn).count(), 0, drawn);
  t.say('six charts, a cause, remarks with links, tables: as the daemon tells');
}
