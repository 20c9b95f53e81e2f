// Light or dark: the system's choice, until one is made here. Kept in the browser.
import { signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';
const NAME = 'sessiond.theme';
const kept = (() => {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return null;
  }
})();
export const theme = signal<Theme>(kept === 'light' || kept === 'dark' ? kept : 'system');

export function applyTheme() {
  if (theme.value === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
}

export function nextTheme() {
  theme.value = ({ system: 'light', light: 'dark', dark: 'system' } as const)[theme.value];
  try {
    if (theme.value === 'system') localStorage.removeItem(NAME);
    else localStorage.setItem(NAME, theme.value);
  } catch {
    /* kept for this page */
  }
  applyTheme();
}
