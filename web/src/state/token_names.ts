// Names of tokens. The name is the note of the token. Only who may list tokens sees the notes of others; they are read
// when a name is first needed.
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

// Returns the name for a sentence such as "Allowed by you".
export const whoIs = (id: string) => (who.value?.id === id ? 'you' : nameOfToken(id));
