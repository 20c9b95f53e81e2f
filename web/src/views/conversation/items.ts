// Makes of entries what stands in the list: results lie within their calls, what people did later lies on its message.
import type { Approval, Message } from '../../api/client';
import { dayOf, text } from '../../ui/format';
import { resultsOf, type Result } from '../../state/parts';

export interface Later {
  edited?: string;
  deleted?: boolean;
  reactions: Map<string, number>;
  delivered?: string;
}
// How long the run of an answer took, and in how many steps.
export interface Ended {
  ms: number;
  steps: number;
}
export type Item =
  | { kind: 'day'; id: string; label: string }
  | {
      kind: 'message';
      id: string;
      message: Message;
      results: Map<string, Result>;
      later?: Later;
      ended?: Ended;
      cont: boolean;
    }
  | { kind: 'result'; id: string; message: Message; results: Result[] }
  | { kind: 'mark'; id: string; message: Message }
  | { kind: 'approval'; id: string; approval: Approval };

const target = (message: Message) => {
  const data = (message.data ?? {}) as {
    target?: { id?: string; messageId?: string };
    text?: string;
    emoji?: string;
    removed?: boolean;
    platformMessageId?: string;
  };
  return { id: data.target?.id ?? data.target?.messageId ?? '', data };
};

function laterOf(messages: Message[]): Map<string, Later> {
  const all = new Map<string, Later>();
  const at = (id: string) => {
    if (!all.has(id)) all.set(id, { reactions: new Map() });
    return all.get(id)!;
  };
  for (const message of messages) {
    const type = text(message.customType);
    if (!type.startsWith('sessiond.')) continue;
    const { id, data } = target(message);
    if (type === 'sessiond.edit') at(id).edited = text(data.text);
    if (type === 'sessiond.delete') at(id).deleted = true;
    if (type === 'sessiond.delivered') at(id).delivered = text(data.platformMessageId) || 'sent';
    if (type === 'sessiond.reaction')
      at(id).reactions.set(text(data.emoji), (at(id).reactions.get(text(data.emoji)) ?? 0) + (data.removed ? -1 : 1));
  }
  return all;
}

// What the daemon notes for itself, and what is shown at the message that it is about.
const UNSEEN = new Set([
  'sessiond.edit',
  'sessiond.delete',
  'sessiond.reaction',
  'sessiond.delivered',
  'sessiond.input',
  'sessiond.copied',
]);
const ENDED_WELL = /^(done|dropped)$/; // of a run: what it said is its mark

function isSeen(message: Message): boolean {
  const type = text(message.customType);
  if (type === 'sessiond.run')
    return !ENDED_WELL.test(text((message.data as { status?: unknown } | undefined)?.status));
  return !UNSEEN.has(type);
}

// Notes at an answer how its run went.
function putFoot(item: Item | undefined, record: Message) {
  const { status, startedAt, endedAt, steps } = (record.data ?? {}) as Record<string, unknown>;
  if (status !== 'done' || item?.kind !== 'message' || item.message.role !== 'assistant') return;
  if (Number(endedAt) > Number(startedAt))
    item.ended = { ms: Number(endedAt) - Number(startedAt), steps: Number(steps) || 0 };
}

// Returns whether an approval is worth a line. One that was allowed by a rule is not.
const isDecision = ({ decision, source }: Approval) =>
  source === 'answer' || source === 'default' || (decision === 'deny' && source !== 'run_ended');

// Approvals that are not older than the messages. They stand before what came after them.
export function itemsOf(messages: Message[], decided: readonly Approval[] = []): Item[] {
  const first = Number(messages[0]?.timestamp) || 0;
  const approvals = decided
    .filter(approval => isDecision(approval) && approval.askedAt >= first)
    .sort((a, b) => a.askedAt - b.askedAt);
  const until = (at: number) => {
    while (approvals[0] && approvals[0].askedAt < at) {
      const approval = approvals.shift()!;
      items.push({ kind: 'approval', id: 'approval-' + approval.id, approval });
      speaker = '';
    }
  };
  const later = laterOf(messages),
    items: Item[] = [],
    calls = new Map<string, Map<string, Result>>();
  let day = '',
    speaker = '';
  for (const message of messages) {
    if (message.customType === 'sessiond.run') putFoot(items.at(-1), message);
    if (!isSeen(message)) continue;
    const at = Number(message.timestamp) || 0,
      label = at ? dayOf(at) : day;
    if (at) until(at);
    if (label !== day) {
      items.push({ kind: 'day', id: `day-${message.seq}`, label });
      day = label;
      speaker = '';
    }
    const results = message.type === 'message' ? resultsOf(message) : [];
    const rest = results.filter(result => {
      const of = calls.get(result.id);
      if (!of || !result.id) return true;
      of.set(result.id, result);
      return false;
    });
    const id = `${message.seq}`,
      only =
        results.length > 0 &&
        (/^tool/.test(text(message.role)) || resultsOf(message).length === (message.content as unknown[])?.length);
    if (rest.length) {
      items.push({ kind: 'result', id: id + 'r', message, results: rest });
    }
    if (only) continue;
    if (message.type !== 'message') {
      items.push({ kind: 'mark', id, message });
      speaker = '';
      continue;
    }
    const mine = new Map<string, Result>();
    for (const part of [
      ...(Array.isArray(message.content) ? message.content : []),
      ...(Array.isArray(message.tool_calls) ? (message.tool_calls as unknown[]) : []),
    ] as { id?: string; callId?: string; call_id?: string }[]) {
      const callId = part?.id ?? part?.callId ?? part?.call_id;
      if (callId) calls.set(callId, mine);
    }
    const now = `${message.role}\n${JSON.stringify(message.from ?? message.author ?? '')}`;
    items.push({ kind: 'message', id, message, results: mine, later: later.get(message.id), cont: now === speaker });
    speaker = now;
  }
  until(Infinity);
  return items;
}
