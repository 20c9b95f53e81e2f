// What the daemon can do beyond the first version: asked for once after signing in.
import { signal } from '@preact/signals';
import { askRaw, Refusal } from '../api/client';
import { restored } from '../live/hub';

export const searchable = signal(false); // GET /v1/search is there

export const followFeatures = () =>
  restored.subscribe(() => {
    if (!searchable.peek()) void lookForFeatures();
  });

export async function lookForFeatures() {
  try {
    await askRaw('/v1/search', { query: { q: 'a', limit: 1 } });
    searchable.value = true;
  } catch (error) {
    searchable.value = error instanceof Refusal && error.status !== 404 && error.status !== 0;
  }
}
