// Asks the daemon. The login cookie goes with every request; a write also carries the CSRF token that /v1/whoami told.
import { text } from '../ui/format';
import type { components } from './schema';

export type Schemas = components['schemas'];
export type Session = Schemas['Session'] & Record<string, unknown>;
export type Message = Schemas['Message'] & Record<string, unknown>;
export type Run = Schemas['Run'];
export type Approval = Schemas['Approval'];
export type Delivery = Schemas['Delivery'];
export type Whoami = Schemas['Whoami'];
export type LiveEvent = Omit<Schemas['Event'], 'data'> & { data: Record<string, unknown> };

// What the daemon refused, as RFC 9457 has it; status 0: it did not answer.
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly body: Record<string, unknown> = {},
    readonly etag = '',
  ) {
    super(detail);
  }
}

export interface Ask {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  query?: Record<string, string | number | boolean | null | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

let csrf = '';
let whenSignedOut = () => {};
export const useCsrf = (token: string) => {
  csrf = token;
};
export const onSignedOut = (call: () => void) => {
  whenSignedOut = call;
};

export function withQuery(path: string, query: Ask['query'] = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  // A space is %20 here: the daemon takes a plus for a plus.
  const pairs = given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return pairs.length ? `${path}?${pairs.join('&')}` : path;
}

async function refusalOf(reply: Response): Promise<Refusal> {
  const body = (await reply.json().catch(() => ({}))) as Record<string, unknown>;
  const detail = typeof body.detail === 'string' ? body.detail : `The daemon answered ${reply.status}.`;
  return new Refusal(reply.status, String(body.code ?? ''), detail, body, reply.headers.get('ETag') ?? '');
}

// The reply itself, for bodies that are no JSON. Throws a Refusal for all but 2xx.
export async function askRaw(
  path: string,
  { method = 'GET', query, body, headers, signal }: Ask = {},
): Promise<Response> {
  const sent =
    method === 'GET'
      ? {}
      : {
          body: body === undefined ? undefined : JSON.stringify(body),
          headers: {
            ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
            'X-CSRF-Token': csrf,
            ...headers,
          },
        };
  let reply: Response;
  try {
    reply = await fetch(withQuery(path, query), { method, cache: 'no-store', headers, signal, ...sent });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal(0, 'offline', 'The daemon does not answer.');
  }
  if (reply.ok) return reply;
  const refusal = await refusalOf(reply);
  if (reply.status === 401 && path !== '/v1/login') whenSignedOut();
  throw refusal;
}

export async function ask<T>(path: string, how: Ask = {}): Promise<T> {
  const reply = await askRaw(path, how);
  return (reply.status === 204 ? null : await reply.json()) as T;
}

// A write under an idempotency key of its own, so that a lost reply can be asked for again.
export const post = <T>(path: string, body: unknown = {}, headers: Record<string, string> = {}) =>
  ask<T>(path, {
    method: 'POST',
    body,
    headers: { 'Idempotency-Key': crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`, ...headers },
  });

export interface Place {
  agent: string;
  key: string;
}
export const idOf = ({ agent, key }: { agent?: unknown; key?: unknown }) => `${text(agent)}\n${text(key)}`;
export const pathOf = ({ agent, key }: Place, rest = '') =>
  `/v1/agents/${encodeURIComponent(agent)}/sessions/${encodeURIComponent(key)}${rest}`;
