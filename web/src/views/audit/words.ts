// Makes a sentence of a line of the audit log. The compiler demands words for every write of openapi.json.
import type { Schemas } from '../../api/client';
import type { paths } from '../../api/schema';
import { visible } from '../../ui/format';
import { CODES } from './codes';

export type Line = Schemas['AuditLine'];
export const GROUPS = [
  'sessions',
  'messages',
  'runs',
  'approvals',
  'deliveries',
  'policy',
  'tokens',
  'maintenance',
] as const;
export type Group = (typeof GROUPS)[number];

type Method = 'get' | 'post' | 'put' | 'patch' | 'delete';
type Route<M extends Method> = {
  [P in keyof paths]: { [N in M]: paths[P][N] extends undefined ? never : `${Uppercase<N>} ${P}` }[M];
}[keyof paths];
type Words = `${Group}${':' | '!'} ${string}`;

// The group, and what is done as it stands behind "Tried to". An exclamation mark: a decision of somebody who may decide, or a deletion.
const WORDS: Record<Route<Exclude<Method, 'get'>>, Words> & Partial<Record<Route<'get'>, Words>> = {
  'GET /v1/search': 'messages: search the messages',
  'POST /mcp': 'messages: use the agent’s memory',
  'GET /v1/blobs/{sha256}': 'messages: read an attachment',
  'GET /v1/whoami': 'tokens: read about its token',
  'POST /v1/login': 'tokens: sign in',
  'POST /v1/logout': 'tokens: sign out',
  'POST /v1/agents/{agent}/sessions': 'sessions: make a session',
  'GET /v1/agents/{agent}/sessions/{key}': 'sessions: read a session',
  'PUT /v1/agents/{agent}/sessions/{key}': 'sessions: write a session’s entry',
  'PATCH /v1/agents/{agent}/sessions/{key}': 'sessions: change a session',
  'DELETE /v1/agents/{agent}/sessions/{key}': 'sessions! delete a session',
  'POST /v1/agents/{agent}/sessions/{key}/reset': 'sessions: begin a session anew',
  'GET /v1/agents/{agent}/sessions/-/last': 'sessions: read a session',
  'POST /v1/agents/{agent}/sessions/{key}/resume': 'sessions: resume a session',
  'POST /v1/agents/{agent}/sessions/{key}/clear': 'sessions! clear a session',
  'POST /v1/agents/{agent}/sessions/{key}/fork': 'sessions: fork a session',
  'POST /v1/agents/{agent}/sessions/{key}/archive': 'sessions: archive a session',
  'POST /v1/agents/{agent}/sessions/{key}/unarchive': 'sessions: reopen a session',
  'POST /v1/agents/{agent}/sessions/{key}/spawn': 'sessions: start a child session',
  'DELETE /v1/agents/{agent}/sessions/{key}/topics/{topic}': 'sessions! delete a topic',
  'POST /v1/agents/{agent}/sessions/{key}/compact': 'sessions: work on a compaction',
  'POST /v1/agents/{agent}/sessions/{key}/repair': 'sessions: repair a turn',
  'POST /v1/agents/{agent}/sessions/{key}/restore': 'sessions: restore a session',
  'POST /v1/agents/{agent}/sessions/{key}/release': 'sessions: release a session',
  'POST /v1/agents/{agent}/sessions/{key}/migrate': 'sessions: migrate a session',
  'PUT /v1/agents/{agent}/sessions/{key}/route': 'sessions: change where replies go',
  'POST /v1/agents/{agent}/sessions/{key}/runs': 'runs: request a run',
  'POST /v1/agents/{agent}/sessions/{key}/runs/{id}/events': 'runs: report on a run',
  'POST /v1/agents/{agent}/sessions/{key}/runs/{id}/finish': 'runs: finish a run',
  'POST /v1/agents/{agent}/sessions/{key}/abort': 'runs: stop a run',
  'POST /v1/agents/{agent}/sessions/{key}/approvals': 'approvals: ask to use a tool',
  'POST /v1/agents/{agent}/sessions/{key}/approvals/{id}': 'approvals! answer an approval',
  'PUT /v1/hooks/{name}': 'maintenance: change a hook',
  'DELETE /v1/hooks/{name}': 'maintenance! delete a hook',
  'POST /v1/hooks/calls/{id}': 'maintenance: answer a hook’s call',
  'POST /v1/agents/{agent}/sessions/{key}/shutdown': 'sessions: end what a session has open',
  'DELETE /v1/agents/{agent}/sessions/{key}/allowed-tools': 'approvals! disallow all tools',
  'DELETE /v1/agents/{agent}/sessions/{key}/allowed-tools/{tool}': 'approvals! disallow a tool',
  'POST /v1/deliveries/claim': 'deliveries: ask for a delivery to send',
  'DELETE /v1/deliveries/{id}': 'deliveries! give up a delivery',
  'POST /v1/deliveries/{id}/ack': 'deliveries: report a delivery as sent',
  'POST /v1/deliveries/{id}/nack': 'deliveries: report that a delivery failed',
  'POST /v1/deliveries/{id}/extend': 'deliveries: extend the lease of a delivery',
  'POST /v1/deliveries/{id}/retry': 'deliveries: send a failed delivery again',
  'POST /v1/agents/{agent}/runs/claim': 'runs: ask for a run to work on',
  'POST /v1/agents/{agent}/sessions/{key}/messages': 'messages: append messages',
  'PUT /v1/agents/{agent}/sessions/{key}/snapshots/{name}': 'sessions: replace a snapshot',
  'DELETE /v1/agents/{agent}/sessions/{key}/snapshots/{name}': 'sessions! delete a snapshot',
  'POST /v1/agents/{agent}/sessions/{key}/streams/{stream}': 'sessions: append to a stream',
  'POST /v1/agents/{agent}/sessions/{key}/log': 'sessions: write to the session’s log',
  'PUT /v1/agents/{agent}/sessions/{key}/transcript': 'messages! replace the transcript',
  'POST /v1/agents/{agent}/import': 'sessions: import sessions',
  'POST /v1/inbound': 'messages: bring in a message',
  'POST /v1/inbound/edits': 'messages: bring in an edit',
  'POST /v1/inbound/deletes': 'messages! bring in a deletion',
  'POST /v1/inbound/reactions': 'messages: bring in a reaction',
  'POST /v1/agents/{agent}/sessions/{key}/outbound': 'messages: send a message',
  'POST /v1/agents/{agent}/sessions/{key}/takeover': 'sessions! take over a conversation',
  'POST /v1/agents/{agent}/sessions/{key}/handback': 'sessions! hand back a conversation',
  'PUT /v1/agents/{agent}/sessions/{key}/send-policy': 'policy! change a session’s send policy',
  'GET /v1/policy/send': 'policy: read the send policy',
  'PUT /v1/policy/send': 'policy! change the send policy',
  'POST /v1/policy/evaluate': 'policy: test the send policy',
  'GET /v1/events': 'maintenance: follow the events',
  'POST /v1/agents/{agent}/sessions/{key}/typing': 'messages: show that somebody types',
  'POST /v1/agents/{agent}/sessions/{key}/deltas': 'messages: pass on a piece of an answer',
  'DELETE /v1/admin/streams/{id}': 'maintenance: close an event stream',
  'POST /v1/stream-tickets': 'tokens: make a ticket for an event stream',
  'POST /v1/admin/tokens': 'tokens! make a token',
  'DELETE /v1/admin/tokens/{id}': 'tokens! revoke a token',
  'POST /v1/admin/tokens/{id}/rotate': 'tokens! rotate a token',
  'POST /v1/admin/locks/{agent}/evict': 'maintenance! take a lock from its holder',
  'POST /v1/agents/{agent}/locks': 'maintenance: borrow a lock',
  'POST /v1/agents/{agent}/locks/{id}/renew': 'maintenance: extend the loan of a lock',
  'DELETE /v1/agents/{agent}/locks/{id}': 'maintenance: give back a lock',
  'POST /v1/admin/checkpoint': 'maintenance: write a checkpoint',
  'POST /v1/admin/maintenance': 'maintenance! put away old sessions',
  'POST /v1/admin/reindex': 'maintenance: look for transcripts without a session',
  'POST /v1/admin/backup': 'maintenance: make a backup',
  'GET /v1/admin/audit': 'maintenance: read the audit log',
  'GET /v1/admin/config': 'maintenance: read the configuration',
  'POST /v1/admin/doctor': 'maintenance: examine the state directory',
};
// The words for a read come from its path: "read the allowed tools".
function reading(route: string): string {
  const [group] = [...GROUPS].sort((a, b) => route.lastIndexOf(b) - route.lastIndexOf(a));
  const noun = route.split('/').findLast(part => part && !part.includes('{')) ?? 'dashboard';
  return `${route.includes(group!) ? group : 'maintenance'}: read the ${noun.replaceAll('-', ' ')}`;
}
const wordsOf = ({ method, route = '' }: Line): string =>
  WORDS[`${method} ${route}` as keyof typeof WORDS] ??
  (route ? reading(route) : ': reach an address that is not there');

export const groupOf = (line: Line) => /^\w*/.exec(wordsOf(line))![0];
export const isDecision = (line: Line) => !line.dryRun && /^\w+!/.test(wordsOf(line));
export const isRefused = (line: Line) => line.status >= 400;

const PAST: Record<string, string> = {
  begin: 'Began',
  bring: 'Brought',
  give: 'Gave',
  make: 'Made',
  put: 'Put',
  send: 'Sent',
  stop: 'Stopped',
  take: 'Took',
  write: 'Wrote',
};
function past(phrase: string): string {
  const [verb = '', ...rest] = phrase.split(' ');
  const done = PAST[verb] ?? verb[0]!.toUpperCase() + verb.slice(1) + (verb.endsWith('e') ? 'd' : 'ed');
  return [done, ...rest].join(' ');
}
// 204 to these: there was nothing to do.
const NOTHING: Record<string, string> = { abort: 'Found no run to stop', handback: 'Found nothing to hand back' };

// "Took over a conversation", "Tried to send a message, denied by the send policy". `times`: so many lines are one.
export function sentenceOf(line: Line, times = 1): string {
  if (times > 1) return `Tried ${times} times${CODES[line.code ?? '']?.[0] ?? ''}`;
  const phrase = wordsOf(line).replace(/^\w*. /, '');
  if (line.dryRun) return `Asked what it would do to ${phrase}`;
  if (isRefused(line)) return `Tried to ${phrase}${CODES[line.code ?? '']?.[0] ?? ''}`;
  const nothing = line.status === 204 && NOTHING[line.route?.split('/').at(-1) ?? ''];
  return (
    (nothing || past(phrase)) + (line.person ? ` as ${visible(line.person)}` : '') + (line.replayed ? ', a repeat' : '')
  );
}
