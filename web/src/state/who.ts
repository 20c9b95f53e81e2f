// Whose token this browser is signed in with, and what it may do.
import { signal } from '@preact/signals';
import { ask, onSignedOut, Refusal, useCsrf, type Whoami } from '../api/client';
import { close, following, open } from '../live/hub';
import { forgetName } from './name';
import { go } from './route';

export type Entry = 'starting' | 'out' | 'in' | 'offline';
export const entry = signal<Entry>('starting');
export const who = signal<Whoami | null>(null);
export const refused = signal('');

const MAY: Record<string, string[]> = {
  write: ['admin', 'operator', 'runner'],
  send: ['admin', 'operator', 'bridge', 'runner'],
  abort: ['admin', 'operator', 'runner', 'bridge'],
  approve: ['admin', 'operator'],
  approvals: ['admin', 'operator', 'bridge', 'runner', 'viewer', 'session'],
  takeover: ['admin', 'operator'],
  run: ['admin', 'operator', 'runner'],
  policy: ['admin', 'operator'],
  maintenance: ['admin', 'operator'],
  metrics: ['admin', 'operator', 'metrics'],
  tokens: ['admin'],
  stream: ['admin', 'operator', 'bridge', 'runner', 'viewer', 'session'],
};
// Returns whether the role allows it. The daemon decides; this only keeps from showing what would be refused.
export function may(what: string): boolean {
  if (!who.value) return false;
  const given = who.value.permissions as string[];
  return (
    (MAY[what] ?? []).includes(who.value.role) ||
    given.includes(what) ||
    (what === 'send' && given.includes('takeover'))
  );
}
// Returns whether the token is limited to no agent, key prefix, channel or session: some routes are for such tokens only.
export const seesAll = () =>
  !!who.value && !who.value.agents.length && !who.value.keyPrefix && !who.value.channel && !who.value.key;

export async function enter(): Promise<void> {
  try {
    const me = await ask<Whoami>('/v1/whoami');
    useCsrf(me.csrf ?? '');
    who.value = me;
    open();
    await following();
    entry.value = 'in';
  } catch (error) {
    if (error instanceof Refusal && error.status !== 401 && (error.status === 0 || error.status >= 500)) {
      entry.value = 'offline';
      setTimeout(() => void enter(), 2000);
      return;
    }
    if (error instanceof Refusal && error.status !== 401) refused.value = error.message;
    entry.value = 'out';
  }
}

export async function signIn(token: string): Promise<void> {
  refused.value = '';
  try {
    await ask('/v1/login', { method: 'POST', body: { token: token.trim() } });
    if (hasLeft) {
      location.reload();
      return;
    }
    open(); // while /v1/whoami is asked
    await enter();
  } catch (error) {
    refused.value = (error as Error).message;
    entry.value = 'out';
  }
}

// The page is loaded again, so that nothing that one token has read is shown to the next person.
export async function signOut(): Promise<void> {
  await ask('/v1/logout', { method: 'POST', body: {} }).catch(() => {});
  close();
  forgetName();
  go('#/', true);
  location.reload();
}

let hasLeft = false;
function leave() {
  close();
  who.value = null;
  entry.value = 'out';
  hasLeft = true;
}
onSignedOut(() => {
  if (entry.value === 'in') {
    refused.value = 'You were signed out: the login has ended, or its token was revoked.';
    leave();
  }
});

// A link that `sessiond serve --demo` prints carries a token behind the #, which no server sees; it is used once.
export async function begin(): Promise<void> {
  const token = /^#token=(sd_[\w-]+)$/.exec(location.hash)?.[1];
  if (!token) return enter();
  go('#/', true);
  await signIn(token);
}
