// Whether single letters and signs act as keys. Some who speak to their computer turn them off. Kept in the browser.
import { signal } from '@preact/signals';

const NAME = 'sessiond.singleKeys';

function load(): boolean {
  try {
    return localStorage.getItem(NAME) !== 'off';
  } catch {
    return true;
  }
}
export const singleKeys = signal(load());

export function setSingleKeys(on: boolean) {
  singleKeys.value = on;
  try {
    if (on) localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, 'off');
  } catch {
    /* private window: kept for this page */
  }
}
