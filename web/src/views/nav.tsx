// Where one can go: a rail at the side, a bar at the bottom of a phone.
import { hrefOf, route } from '../state/route';
import { helping, jumping } from '../state/overlays';
import { nextTheme, theme } from '../state/theme';
import { signOut, who } from '../state/who';
import { answerable, failed } from '../state/work';
import { Icon } from '../ui/icons';
import { Agents } from './agents';
import { keyName } from './commands';
import { MoreButton, restOf } from './more';
import { Connection } from './status';

function Link({
  view,
  name,
  badge = 0,
  tone = '',
  rest = false,
}: {
  view: string;
  name: string;
  badge?: number;
  tone?: string;
  rest?: boolean;
}) {
  return (
    <a class={rest ? 'rest' : ''} href={hrefOf(view)} aria-current={route.value.view === view ? 'page' : undefined}>
      <Icon name={view} size={17} />
      <span class="name">{name}</span>
      {badge > 0 && (
        <span class={`count ${tone}`}>
          {badge}
          <span class="sr-only"> waiting</span>
        </span>
      )}
    </a>
  );
}

export function Nav() {
  const waiting = answerable.value.length,
    broken = failed.value.length,
    me = who.value;
  const scope = me ? [me.role, ...me.agents, me.keyPrefix, me.channel].filter(Boolean).join(' · ') : '';
  return (
    <nav class="rail" aria-label="Views">
      <a class="brand" href={hrefOf('sessions')} aria-label="sessiond">
        <img src={document.querySelector<HTMLLinkElement>('link[rel=icon]')?.href} alt="" width="26" height="26" />
        <span class="name">sessiond</span>
      </a>
      <button
        type="button"
        class="find"
        aria-haspopup="dialog"
        onClick={() => {
          jumping.value = true;
        }}
      >
        <Icon name="search" size={16} />
        <span class="name">
          Search<span class="wide-only"> or jump</span>
        </span>
        <kbd class="wide-only">{keyName('Mod+k')}</kbd>
      </button>
      <Link view="sessions" name="Sessions" />
      <Link view="work" name="Work" badge={waiting + broken} tone={waiting ? 'warn' : 'bad'} />
      {restOf().map(([view, name]) => (
        <Link key={view} view={view} name={name} rest />
      ))}
      <MoreButton />
      <Agents />
      <span class="spacer" />
      <div class="rail-foot">
        <Connection />
        <span id="who" class="soft small cut" title={scope}>
          {scope}
        </span>
        <span class="rail-buttons">
          <button
            type="button"
            class="ghost icon-only"
            aria-label={`Colours: ${theme.value}`}
            title={`Colours: ${theme.value}`}
            onClick={nextTheme}
          >
            <Icon name="theme" size={18} />
          </button>
          <button
            type="button"
            class="ghost icon-only"
            aria-label="Keys"
            title="Keys (?)"
            onClick={() => {
              helping.value = true;
            }}
          >
            <Icon name="help" size={18} />
          </button>
          <button
            id="leave"
            type="button"
            class="ghost icon-only"
            aria-label="Sign out"
            title="Sign out"
            onClick={() => void signOut()}
          >
            <Icon name="out" size={18} />
          </button>
        </span>
      </div>
    </nav>
  );
}
