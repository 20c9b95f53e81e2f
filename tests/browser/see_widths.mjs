// Every view at the narrowest and the widest window that it is made for: the page does not scroll sideways, and what can be
// clicked is neither cut off nor covered.
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { VIEWS } from './views.mjs';

// What is cut off or covered, in words. An element may lie outside of a box that scrolls: one can bring it in.
function unreachable() {
  const faults = [];
  const nameOf = one =>
    `${one.tagName.toLowerCase()}.${one.className} “${(one.getAttribute('aria-label') || one.innerText || one.name || '').slice(0, 40)}”`;
  const scrolls = (style, axis) => /auto|scroll/.test(style[`overflow${axis}`]);
  const within = document.querySelector('dialog[open]') ?? document; // behind a dialog nothing can be clicked
  for (const one of within.querySelectorAll('a[href], button, input, select, textarea, summary')) {
    if (!one.checkVisibility({ checkVisibilityCSS: true }) || one.closest('.sr-only, .skip')) continue;
    const at = one.getBoundingClientRect();
    let box = { left: 0, top: 0, right: innerWidth, bottom: innerHeight },
      sideways = false,
      upwards = false;
    for (let around = one.parentElement; around; around = around.parentElement) {
      const style = getComputedStyle(around),
        edge = around.getBoundingClientRect();
      sideways ||= scrolls(style, 'X') && around.scrollWidth > around.clientWidth;
      upwards ||= scrolls(style, 'Y') && around.scrollHeight > around.clientHeight;
      if (style.overflowX !== 'visible' && !sideways)
        box = { ...box, left: Math.max(box.left, edge.left), right: Math.min(box.right, edge.right) };
      if (style.overflowY !== 'visible' && !upwards)
        box = { ...box, top: Math.max(box.top, edge.top), bottom: Math.min(box.bottom, edge.bottom) };
    }
    if (!sideways && (at.left < box.left - 1 || at.right > box.right + 1))
      faults.push(`${nameOf(one)} is cut off: ${Math.round(at.left)} to ${Math.round(at.right)} of ${Math.round(box.left)} to ${Math.round(box.right)}`);
    else if (!upwards && (at.top < box.top - 1 || at.bottom > box.bottom + 1))
      faults.push(`${nameOf(one)} is cut off below: ${Math.round(at.top)} to ${Math.round(at.bottom)} of ${Math.round(box.top)} to ${Math.round(box.bottom)}`);
    else if (at.width < 12 || at.height < 12) faults.push(`${nameOf(one)} is ${at.width} by ${at.height} px`);
    else if (!sideways && !upwards) {
      const hit = document.elementFromPoint((at.left + at.right) / 2, (at.top + at.bottom) / 2);
      if (hit && !one.contains(hit) && !hit.contains(one)) faults.push(`${nameOf(one)} is covered by ${nameOf(hit)}`);
    }
  }
  return faults;
}

export default async function (t) {
  const found = [],
    folder = process.env.SHOTS;
  mkdirSync(folder, { recursive: true });
  for (const [width, height] of [
    [320, 568],
    [2560, 1440],
  ]) {
    const page = await t.signedIn(await t.browserContext({ viewport: { width, height } }));
    const look = async name => {
      await page.locator('.loading').first().waitFor({ state: 'detached' });
      await page.evaluate(() => Promise.all(document.getAnimations().map(one => one.finished.catch(() => {}))));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      if (wide > 0) found.push(`${name} at ${width}: ${wide} px wider than the window`);
      for (const one of await page.evaluate(unreachable)) found.push(`${name} at ${width}: ${one}`);
      await page.screenshot({ path: path.join(folder, `${name}-${width}.png`) });
    };
    for (const [name, hash] of Object.entries(VIEWS)) {
      await t.go(page, hash);
      await page.locator('main h1').first().waitFor({ state: 'attached' });
      await look(name);
    }
    await t.go(page, '#/sessions');
    if (width < 760) {
      await page.getByRole('button', { name: 'More' }).click();
      await page.locator('dialog[open] nav').waitFor();
      await look('more');
      await page.locator('dialog[open]').getByRole('link', { name: 'Health' }).click();
      await page.locator('main h1', { hasText: 'Health' }).waitFor();
      await t.go(page, '#/sessions');
    }
    await page.keyboard.press('?');
    await page.locator('dialog[open]').waitFor();
    const dialog = await page.locator('dialog[open]').boundingBox();
    t.assert.ok(dialog.x >= 0 && dialog.x + dialog.width <= width && dialog.y >= 0, JSON.stringify(dialog));
    await page.context().close();
  }
  t.assert.deepEqual(found, []);
  t.say(`${Object.keys(VIEWS).length} views at 320 and 2560 px: nothing is wider than the window, nothing to click is cut off or covered`);
}
