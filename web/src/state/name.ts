// The name under which the person at this browser takes conversations over. Kept in the browser until a sign-out.
import { signal } from '@preact/signals';

const NAME = 'sessiond.name';

function load(): string {
  try {
    return localStorage.getItem(NAME) ?? '';
  } catch {
    return '';
  }
}
export const myName = signal(load());

addEventListener('storage', event => {
  if (event.key === NAME) myName.value = event.newValue ?? ''; // another tab of this browser
});

export function keepName(name: string) {
  myName.value = name;
  try {
    localStorage.setItem(NAME, name);
  } catch {
    /* private window: kept for this page */
  }
}

export function forgetName() {
  myName.value = '';
  try {
    localStorage.removeItem(NAME);
  } catch {
    /* it was not kept */
  }
}
