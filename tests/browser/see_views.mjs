// Every view in both themes and two widths (all four combinations with SESSIOND_TEST_LONG, else two): axe-core finds nothing, nothing is wider than the window, and a picture of
// each is left in SHOTS for people to look at.
import axe from 'axe-core';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { VIEWS } from './views.mjs';

async function settled(page) {
  await page
    .locator('.loading')
    .first()
    .waitFor({ state: 'detached' })
    .catch(() => {});
  // Not by waitForFunction, which evaluates text: the page's policy forbids that.
  await page.evaluate(() => Promise.all(document.getAnimations().map(one => one.finished.catch(() => {}))));
}

async function violationsOf(page) {
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(axe.source);
  return page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
    return violations.map(
      one =>
        `${one.id}: ${one.nodes
          .slice(0, 3)
          .map(node => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ''}`)
          .join(' | ')}`,
    );
  });
}

export default async function (t) {
  const folder = process.env.SHOTS,
    found = [];
  mkdirSync(folder, { recursive: true });
  const take = async (page, name) => {
    await settled(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (wide > 0) found.push(`${name}: ${wide} px wider than the window`);
    await page.screenshot({ path: path.join(folder, `${name}.png`), animations: 'disabled' });
    for (const one of await violationsOf(page)) found.push(`${name}: ${one}`);
  };
  const forms = process.env.SESSIOND_TEST_LONG
    ? [
        [1440, 'light'],
        [1440, 'dark'],
        [375, 'light'],
        [375, 'dark'],
      ]
    : [
        [1440, 'light'],
        [375, 'dark'],
      ];
  for (const [width, colorScheme] of forms) {
    const context = await t.browserContext({ viewport: { width, height: width > 1000 ? 900 : 780 }, colorScheme });
    const page = await context.newPage(),
      of = name => `${name}-${width}-${colorScheme}`;
    await page.goto(t.url + '/');
    await page.locator('#token').waitFor();
    await take(page, of('sign-in'));
    await page.goto(`${t.url}/#token=${t.admin}`);
    await page.reload();
    await page.locator('#state.live').waitFor({ state: 'attached' });
    for (const [name, hash] of Object.entries(VIEWS)) {
      await t.go(page, hash);
      await page.locator('main h1').first().waitFor({ state: 'attached' });
      await page.waitForTimeout(150);
      await take(page, of(name));
    }
    for (const [name, view] of [['Take over', 'approval'], ['Hand back', 'taken-over']]) {
      await t.go(page, VIEWS[view]);
      await page.locator('.conversation-head').getByRole('button', { name }).click();
      await page.locator('dialog[open]').waitFor();
      await take(page, of(name.toLowerCase().replace(' ', '-')));
      await page.keyboard.press('Escape');
      await page.locator('dialog[open]').waitFor({ state: 'detached' });
    }
    await t.go(page, '#/audit?only=1');
    await page.locator('.audit-row a').first().click();
    await page.locator('.side-panel .around').waitFor();
    await take(page, of('audit-line'));
    await t.go(page, '#/sessions');
    await page.keyboard.press('?');
    await page.locator('dialog[open]').waitFor();
    await take(page, of('help'));
    await context.close();
  }
  t.assert.deepEqual(found, []);
  t.say(
    `${Object.keys(VIEWS).length + 5} views in ${forms.length} forms: axe-core found nothing; pictures in ${folder}`,
  );
}
