// Requests or Events; who may not see requests gets no switch.
import { go, hrefOf, route, setQuery } from '../../state/route';
import { may, seesAll } from '../../state/who';
import { visible } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { keyTitle, placeOf } from './lines';

export const seesRequests = () => may('maintenance') && seesAll();
export const shownView = () => (seesRequests() && route.value.query.get('view') !== 'events' ? 'requests' : 'events');

export function Switch() {
  if (!seesRequests()) return null;
  const { query } = route.value,
    shown = shownView();
  const to = (view: string) => go(hrefOf('audit', [], { view, actor: query.get('actor'), key: query.get('key') }));
  return (
    <div class="segments" role="group" aria-label="What is shown">
      {(['requests', 'events'] as const).map(view => (
        <button key={view} type="button" aria-pressed={shown === view} onClick={() => to(view)}>
          {view === 'requests' ? 'Requests' : 'Events'}
        </button>
      ))}
    </div>
  );
}

// The filters that came with the address, as buttons. Pressing one removes the filter.
export function Chips({ names }: { names: ('actor' | 'key' | 'code')[] }) {
  const { query } = route.value;
  const labelOf = (name: string, value: string) => {
    const place = name === 'key' && placeOf({ key: value });
    return place ? keyTitle(place) : visible(value);
  };
  return (
    <>
      {names.map(name => {
        const value = query.get(name);
        return (
          value && (
            <button
              key={name}
              type="button"
              class="chip"
              aria-pressed="true"
              title="Show all again"
              onClick={() => setQuery({ [name]: null })}
            >
              <span class="cut" dir="auto">
                {labelOf(name, value)}
              </span>
              <Icon name="close" size={12} />
            </button>
          )
        );
      })}
    </>
  );
}
