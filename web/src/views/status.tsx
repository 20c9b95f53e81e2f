// How the connection is: a dot that is always there, and a line across the page when something is missing.
import { connection, gap, lag, lastId, retryAt, shared } from '../live/hub';
import { now } from '../ui/format';

const WORDS = {
  live: 'live',
  connecting: 'connecting',
  waiting: 'reconnecting',
  denied: 'not live',
  'signed-out': 'signed out',
} as const;

export function Connection() {
  const state = connection.value;
  const title = `${WORDS[state]}${lag.value !== null && state === 'live' ? `; the last event came ${lag.value} ms after its commit, if both clocks agree` : ''}. Last event ${lastId.value || 'none'}. ${shared ? 'All tabs share one stream.' : 'The leading tab shares its stream.'}`;
  return (
    <span id="state" class={`connection ${state}`} role="status" title={title} data-last={lastId.value}>
      <i aria-hidden="true" />
      <span>{WORDS[state]}</span>
    </span>
  );
}

export function Banner() {
  void now.value;
  if (connection.value === 'denied')
    return (
      <p class="banner warn" role="status">
        This token may not follow events: what you see is as it was when it was read.
      </p>
    );
  if (connection.value === 'waiting')
    return (
      <p class="banner warn" role="status">
        The connection to the daemon is lost. Trying again
        {retryAt.value ? ` within ${Math.max(1, Math.ceil((retryAt.value - Date.now()) / 1000))} s` : ''}; what happens
        meanwhile is not lost.
      </p>
    );
  if (gap.value)
    return (
      <p class="banner info" role="status">
        Events are missing ({gap.value}), so everything shown was read anew.{' '}
        <button
          type="button"
          class="small"
          onClick={() => {
            gap.value = null;
          }}
        >
          Good
        </button>
      </p>
    );
  return null;
}
