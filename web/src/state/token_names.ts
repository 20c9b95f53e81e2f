// What a token is called: its note, where this token may read those of others. Read once, when a name is first asked for.
import { signal } from '@preact/signals';
import { ask, type Schemas } from '../api/client';
import { listen } from '../live/hub';
import { may, seesAll, who } from './who';

const notes = signal<ReadonlyMap<string, string>>(new Map());
let isKept = false;

async function read() {
  const got = await ask<{ data: Schemas['TokenInfo'][] }>('/v1/admin/tokens').catch(() => null);
  if (got) notes.value = new Map(got.data.map(token => [token.id, token.note ?? '']));
}

export function nameOfToken(id: string): string {
  if (!isKept && may('tokens') && seesAll()) {
    isKept = true;
    void read();
    listen(events => {
      if (events.some(event => event.type.startsWith('token.'))) void read();
    });
  }
  return notes.value.get(id) || (who.value?.id === id && who.value.note) || id;
}

// The same in a sentence about what somebody did.
export const whoIs = (id: string) => (who.value?.id === id ? 'you' : nameOfToken(id));
