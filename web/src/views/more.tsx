// Lists what has no place in the bar of a phone: the seldom views, the colours, signing out. Elsewhere it all stands in the rail.
import { signal } from '@preact/signals';
import { hrefOf, route } from '../state/route';
import { nextTheme, theme } from '../state/theme';
import { may, seesAll, signOut, who } from '../state/who';
import { Dialog } from '../ui/dialog';
import { Icon } from '../ui/icons';

const open = signal(false);
const close = () => {
  open.value = false;
};

// The seldom views that the token may see.
export function restOf(): [view: string, name: string][] {
  const rest: [string, string, boolean][] = [
    ['policy', 'Policy', seesAll()],
    ['health', 'Health', true],
    ['audit', 'Audit', may('stream')],
    ['admin', 'Settings', (may('tokens') || may('maintenance')) && seesAll()],
  ];
  return rest.filter(([, , seen]) => seen).map(([view, name]) => [view, name]);
}

export function MoreButton() {
  return (
    <button
      type="button"
      class={`more-button ${restOf().some(([view]) => view === route.value.view) ? 'current' : ''}`}
      aria-haspopup="dialog"
      onClick={() => {
        open.value = true;
      }}
    >
      <Icon name="more" />
      <span class="name">More</span>
    </button>
  );
}

export function More() {
  if (!open.value) return null;
  return (
    <Dialog title="More" onClose={close}>
      <nav class="more-list" aria-label="More views">
        {restOf().map(([view, name]) => (
          <a key={view} href={hrefOf(view)} onClick={close}>
            <Icon name={view} />
            {name}
          </a>
        ))}
        <button type="button" onClick={nextTheme}>
          <Icon name="theme" />
          Colours: {theme.value}
        </button>
        <button
          type="button"
          onClick={() => {
            close();
            void signOut();
          }}
        >
          <Icon name="out" />
          Sign out{who.value ? ` (${who.value.role})` : ''}
        </button>
      </nav>
    </Dialog>
  );
}
