// What /readyz and the last measurement tell of people's messages, a sentence each, with a link to where one can act.
import type { Schemas } from '../../api/client';
import { UNCLAIMED_MS } from '../../state/needs';
import { hrefOf } from '../../state/route';
import { may, seesAll } from '../../state/who';
import { failed } from '../../state/work';
import { clock, count, span, visible } from '../../ui/format';
import { WAITS_MS } from './charts';
import type { MetricsHistory } from './history';

export type Ready = Schemas['Ready'];
export interface Remark {
  link?: string; // the words that lead to `href`
  href?: string;
  text: string;
  bad?: boolean;
}

// How the daemon begins a reason, and what that means for messages. What follows the beginning is told behind a colon.
const REASONS: [begins: string, means: string][] = [
  ['shutting down', 'The daemon is shutting down and takes no new messages'],
  ['not writable', 'New messages are not stored'],
  ['checkpoint fails', 'Other programs do not see new messages, because the files cannot be written'],
  ['recovery waits for the lock of', 'Messages from before the start wait for a lock'],
  ['recovery waits for a lock', 'Messages from before the start wait for a lock'],
  ['a session log cannot be written', 'What happens in a session cannot be logged'],
  ['audit log cannot be written', 'The audit log cannot be written'],
];

const sentence = (text: string) => `${visible(text).replace(/\.$/, '')}.`;

function ofReason(reason: string, lagMs: number): string {
  if (/^checkpoint is \d+ ms behind$/.test(reason))
    return `Other programs see new messages late: sessions.json is ${span(lagMs)} behind.`;
  const [begins, means] = REASONS.find(([one]) => reason.startsWith(one)) ?? [];
  if (!begins) return sentence(reason);
  const detail = reason.slice(begins.length).replace(/^[: ]+/, '');
  return sentence(detail ? `${means}: ${detail}` : means!);
}

// Names in a sentence: the first few, and how many more.
const named = (names: string[]) =>
  names.length > 4 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more` : names.join(', ');

function waiting(history: MetricsHistory | null): Remark[] {
  const at = history?.at.at(-1) ?? 0,
    run = history?.oldestRunMs.at(-1) ?? 0,
    delivery = history?.oldestDeliveryMs.at(-1) ?? 0,
    href = hrefOf('work');
  const remarks: Remark[] = [];
  if (run > UNCLAIMED_MS)
    remarks.push({
      href,
      link: 'A run',
      text: `has waited since ${clock(at - run)}, and no runner takes it. Is the runner of its agent at work?`,
    });
  if (delivery > WAITS_MS)
    remarks.push({
      href,
      link: 'A message',
      text: `has waited since ${clock(at - delivery)}, and no bridge sends it.`,
    });
  return remarks;
}

export function remarksOf(ready: Ready, history: MetricsHistory | null): Remark[] {
  const examine = may('maintenance') && seesAll() ? hrefOf('admin', ['maintenance']) : undefined,
    { unindexed, repairs = [], search } = ready,
    broken = ready.failedDeliveries ?? failed.value.length;
  const remarks: Remark[] = [
    ...ready.reasons.map(reason => ({ bad: true, text: ofReason(reason, ready.checkpointLagMs) })),
    ...(ready.damage ?? []).map(one => ({
      bad: true,
      href: examine,
      link: 'The journal is damaged',
      text: `and needs serve --repair: ${sentence(one)}`,
    })),
    ...(ready.degraded ?? []).map(one => ({ bad: true, text: `Some messages are not served: ${sentence(one)}` })),
  ];
  if (broken)
    remarks.push({
      href: hrefOf('work', [], { stage: 'failed' }),
      link: broken === 1 ? '1 delivery failed' : `${count(broken)} deliveries failed`,
      text: `and ${broken === 1 ? 'waits' : 'wait'} for your decision.`,
    });
  remarks.push(...waiting(history));
  if (unindexed?.length)
    remarks.push({
      href: examine,
      link: visible(named(unindexed)),
      text: `${unindexed.length === 1 ? 'has' : 'have'} conversations that are not listed for want of a sessions.json: POST /v1/admin/reindex adopts them.`,
    });
  if (repairs.length)
    remarks.push({
      href: examine,
      link: repairs.length === 1 ? '1 repair' : `${count(repairs.length)} repairs`,
      text: `since the start: ${sentence(repairs.at(-1)!)}`,
    });
  for (const one of ready.loading ?? [])
    remarks.push({ text: `Messages wait until their files are read: ${sentence(one)}` });
  if (ready.unwatched)
    remarks.push({ text: `Messages that other programs write are seen late: ${sentence(ready.unwatched)}` });
  if (ready.idempotencyTruncated)
    remarks.push({
      text: 'A message that a bridge sends again may be stored twice: kept answers went early, for space.',
    });
  if (search?.state === 'behind')
    remarks.push({
      text: `Search does not find new messages: ${sentence(search.error ?? 'its index cannot be written')}`,
    });
  return remarks;
}
