// What the one connection of a browser tells its tabs, and they it.
export type State = 'connecting' | 'live' | 'waiting' | 'denied' | 'signed-out';

export type Told =
  | { kind: 'state'; state: State; retryAt?: number; lastId: string; streams: number; why?: string }
  | { kind: 'events'; events: string[]; lastId: string } // each the JSON of an event
  | { kind: 'gap'; reason: string; lastId: string };

export type Asked = { kind: 'open' } | { kind: 'close' } | { kind: 'hello' } | { kind: 'bye' };
