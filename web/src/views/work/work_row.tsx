// A line of the list of work: whose it is, what happens to it, who has it, and how long already.
import { hrefOf, sessionHref } from '../../state/route';
import { rowOf, titleOf } from '../../state/sessions';
import { isDelivery, type Item } from '../../state/stages';
import { may } from '../../state/who';
import { Age, channelName } from '../../ui/basics';
import { clock, lasted, seconds, text } from '../../ui/format';
import { Icon } from '../../ui/icons';
import type { Doing } from './use_work';
import { stopRun } from './run_list';
import { saidOf } from './words';

const CARET = 120;

// What it is about: the message that goes out, else what was said last.
function quoteOf(item: Item): string {
  if (isDelivery(item)) return text(item.delivery.text).slice(0, CARET);
  const last = rowOf(item.place)?.lastMessage as { text?: string } | undefined;
  return text(last?.text).slice(0, CARET);
}

export function workHref(item: Item, stage: string | null, agent: string | null): string {
  if (isDelivery(item)) return hrefOf('work', ['d', item.id], { stage, agent });
  const { agent: of, key } = item.place;
  return item.stage === 'asking'
    ? hrefOf('sessions', [of, key, 'a', item.id], { topic: item.approval.topic })
    : sessionHref(item.place, undefined, { topic: item.run.topic ?? undefined });
}

function Since({ item }: { item: Item }) {
  if (item.stage === 'asking')
    return <span class="num warn-text">{lasted(item.approval.deadline - seconds.value)} left</span>;
  if (item.stage === 'sent') return <span class="num soft">{clock(item.since)}</span>;
  if (item.stage === 'working') return <span class="num">{lasted(seconds.value - item.since)}</span>;
  return <Age at={item.since} />;
}

export function WorkRow({ item, doing, href, isOpen }: { item: Item; doing?: Doing; href: string; isOpen: boolean }) {
  const said = saidOf(item, doing),
    session = rowOf(item.place),
    quote = quoteOf(item);
  const channel = isDelivery(item) ? item.delivery.channel : text(session?.channel),
    tries = isDelivery(item) ? item.delivery.attempt : item.stage === 'asking' ? 1 : item.run.attempt;
  return (
    <li class={`work-row ${isOpen ? 'open' : ''}`}>
      <a href={href} aria-current={isOpen ? 'true' : undefined}>
        <span class={said.tone && `${said.tone}-text`}>
          {said.icon === 'spinner' ? <i class="spinner" aria-hidden="true" /> : <Icon name={said.icon} size={16} />}
        </span>
        <span class="cut">
          <b dir="auto">{session ? titleOf(session) : item.place.key.replace(/^agent:[^:]*:/, '')}</b>{' '}
          <span class="soft">
            {item.place.agent}
            {channel && `, ${channelName(channel)}`}
          </span>
        </span>
        <span class="cut what">
          <span class={said.tone && said.tone !== 'good' && said.tone !== 'info' ? `${said.tone}-text` : ''}>
            {said.words}
          </span>{' '}
          {quote && (
            <span class="soft" dir="auto">
              “{quote}”
            </span>
          )}
        </span>
        <span class="cut soft by">{said.by}</span>
        <span class="num soft tries">{tries > 1 && `${tries} tries`}</span>
        <span class="since">
          <Since item={item} />
        </span>
      </a>
      {item.stage === 'working' && may('abort') && (
        <button type="button" class="small" onClick={() => void stopRun(item.place, item.run.runId)}>
          Stop
        </button>
      )}
    </li>
  );
}
