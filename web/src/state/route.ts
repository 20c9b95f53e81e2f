// Where the page is, kept in the address, so that everything can be linked to: #/view/part/part?name=value.
import { computed, signal } from '@preact/signals';
import type { Place } from '../api/client';

export interface Route {
  view: string;
  parts: string[];
  query: URLSearchParams;
}

function read(): Route {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?', 2);
  const [view = '', ...parts] = path.split('/').map(part => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  if (view === 'events' || (view === 'admin' && parts[0] === 'audit')) {
    // Addresses of before there was the view Audit.
    history.replaceState(null, '', `#/audit?view=${view === 'events' ? 'events' : 'requests'}${query && `&${query}`}`);
    return read();
  }
  return { view: view || 'sessions', parts, query: new URLSearchParams(query) };
}

export const route = signal<Route>(read());
let beforeSearch = '#/';
addEventListener('hashchange', event => {
  const next = read();
  if (next.view === 'search' && route.value.view !== 'search') beforeSearch = new URL(event.oldURL).hash || '#/';
  route.value = next;
});
// To where one was before the search.
export const leaveSearch = () => go(beforeSearch);

export function hrefOf(
  view: string,
  parts: string[] = [],
  query: Record<string, string | number | undefined | null> = {},
): string {
  const given = Object.entries(query)
    .filter(([, value]) => value !== undefined && value !== null && value !== '')
    .map(([name, value]) => [name, String(value)]);
  const path = [view, ...parts].map(encodeURIComponent).join('/').replaceAll('%3A', ':');
  return `#/${path}${given.length ? `?${new URLSearchParams(given)}` : ''}`;
}

export function go(href: string, replace = false) {
  if (!replace) {
    location.hash = href;
    return;
  }
  history.replaceState(null, '', href);
  route.value = read();
}

// Changes some values of the query and leaves the rest.
export function setQuery(changes: Record<string, string | null>) {
  const query = new URLSearchParams(route.value.query);
  for (const [name, value] of Object.entries(changes))
    if (value) query.set(name, value);
    else query.delete(name);
  go(hrefOf(route.value.view, route.value.parts, Object.fromEntries(query)), true);
}

export const sessionHref = (place: Place, tab?: string, query: Record<string, string | number | undefined> = {}) =>
  hrefOf('sessions', [place.agent, place.key, ...(tab ? [tab] : [])], query);

export const openSession = computed<Place | null>(() => {
  const { view, parts } = route.value;
  return view === 'sessions' && parts[0] && parts[1] ? { agent: parts[0], key: parts[1] } : null;
});
