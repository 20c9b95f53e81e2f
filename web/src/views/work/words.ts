// What a piece of work is said to be: one line for the list, and of a delivery that failed the cause and what to do.
import type { Delivery } from '../../api/client';
import { UNCLAIMED_MS } from '../../state/needs';
import type { Item } from '../../state/stages';
import { nameOfToken } from '../../state/token_names';
import { channelName } from '../../ui/basics';
import { lasted, now, seconds, text, visible } from '../../ui/format';
import type { Doing } from './use_work';

export interface Said {
  icon: string;
  tone: '' | 'warn' | 'bad' | 'good' | 'info';
  words: string;
  by: string; // the runner or the bridge; empty: nobody has it
}

const errorOf = (error: Delivery['error']) =>
  visible(text(error?.message) || text(error?.code)) || 'no reason was given';
export const isTooOften = ({ error }: Delivery) => error?.code === 'too_many_attempts';

function ofSending(delivery: Delivery, isBehind: boolean): Said {
  const by = delivery.claimedBy ? nameOfToken(delivery.claimedBy) : '',
    last = delivery.failedTries?.at(-1);
  if (delivery.status === 'leased') return { icon: 'send', tone: 'info', words: 'With its bridge', by };
  if (isBehind) return { icon: 'send', tone: '', words: 'Waits for the message before it', by: '' };
  const wait = (delivery.nextAt ?? 0) - seconds.value;
  if (last)
    return {
      icon: 'send',
      tone: 'warn',
      words: `${last.error ? errorOf(last.error) : 'The bridge said nothing'}, again ${wait > 0 ? `in ${lasted(wait)}` : 'now'}`,
      by,
    };
  return { icon: 'send', tone: '', words: 'Waits for its bridge', by: '' };
}

export function saidOf(item: Item, doing?: Doing): Said {
  if (item.stage === 'asking')
    return { icon: 'key', tone: 'warn', words: `asks to use ${visible(item.approval.tool)}`, by: '' };
  if (item.stage === 'working') {
    const step = doing?.step || item.run.steps,
      words = [doing?.tool && visible(doing.tool), step ? `step ${step}` : 'at work'].filter(Boolean).join(', ');
    return { icon: 'spinner', tone: 'info', words, by: text(item.run.runner) };
  }
  if (item.stage === 'waiting') {
    if (item.run.held) return { icon: 'hand', tone: '', words: 'Waits for the hand-back', by: '' };
    if (item.isBehind) return { icon: 'clock', tone: '', words: 'Waits behind what is at work', by: '' };
    return now.value - item.since > UNCLAIMED_MS
      ? { icon: 'clock', tone: 'bad', words: 'No runner has taken this', by: '' }
      : { icon: 'clock', tone: '', words: 'Waits for a runner', by: '' };
  }
  const { delivery } = item,
    by = delivery.claimedBy ? nameOfToken(delivery.claimedBy) : '';
  if (item.stage === 'sending') return ofSending(delivery, item.isBehind);
  if (item.stage === 'sent') return { icon: 'check', tone: 'good', words: `Sent to ${delivery.to ?? 'people'}`, by };
  return { icon: 'warn', tone: 'bad', words: errorOf(delivery.error), by };
}

// Of platforms' usual refusals: what it means, and who can mend it.
const USUAL: [RegExp, string][] = [
  [
    /^50001$|missing access|not_in_channel/i,
    'The bot cannot see this channel any more. Let it in again, then send the message again.',
  ],
  [
    /^50013$|missing permission|restricted_action|not enough rights/i,
    'The bot may not write there. Give it the right to, then send the message again.',
  ],
  [
    /^50007$|cannot_dm|bot was blocked|user_disabled|deactivated/i,
    'This person does not take messages from the bot. Another way to reach them is needed.',
  ],
  [
    /^10003$|channel_not_found|chat not found|unknown channel|is_archived/i,
    'The channel is gone or closed. Nothing can arrive there until it is open again.',
  ],
  [
    /invalid_auth|token_revoked|account_inactive|^401$|unauthorized/i,
    'The platform does not accept the bridge’s token. Give the bridge a new one, then send the message again.',
  ],
  [/rate|too many requests|^429$/i, 'The platform was asked too often. A later try usually succeeds.'],
  [
    /too long|msg_too_long|^50035$/i,
    'The platform does not take a message of this length or form. It has to be written anew.',
  ],
  [
    /^net$|timeout|timed out|econn|enotfound|network|socket/i,
    'The bridge did not reach the platform. Send it again when the network is well.',
  ],
];

// Another try is of no use: this person cannot be reached so.
const HOPELESS = USUAL[2]![0];

// Why it failed, what to do about it, and whether another try may help.
export function causeOf(delivery: Delivery): { title: string; advice: string; isHopeless?: boolean } {
  const platform = channelName(delivery.channel),
    last = delivery.failedTries?.at(-1),
    code = text(delivery.error?.code);
  if (code === 'too_old')
    return {
      title: 'No bridge took it in time',
      advice: `Is the bridge to ${platform} at work? Start it, then send the message again.`,
    };
  const error = isTooOften(delivery) && last?.error ? last.error : delivery.error;
  const usual = USUAL.find(([fits]) => fits.test(text(error?.code)) || fits.test(text(error?.message)))?.[1];
  if (isTooOften(delivery) && !last?.error)
    return {
      title: 'The bridge took it and said nothing',
      advice: 'It claimed the message each time, and its lease ended without a word. Its log says more.',
    };
  return {
    title: `${platform} refused it: ${errorOf(error)}`,
    isHopeless: HOPELESS.test(text(error?.code)) || HOPELESS.test(text(error?.message)),
    advice:
      usual ??
      (delivery.final ? 'The bridge said that no further try can help.' : 'The bridge has tried as often as it may.'),
  };
}
