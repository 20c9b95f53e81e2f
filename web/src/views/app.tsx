// The frame: where one can go, how the connection is, and the view that the address names.
import { useEffect } from 'preact/hooks';
import { hrefOf, openSession, route } from '../state/route';
import { followFeatures, lookForFeatures, searchable } from '../state/features';
import { followSessions } from '../state/session_events';
import { read } from '../state/session_pages';
import { entry } from '../state/who';
import { followWork, readRuns, readWork } from '../state/work';
import { Questions } from '../ui/dialog';
import { Toasts } from '../ui/toast';
import { useKeys } from '../ui/use';
import { Admin } from './admin';
import { EventsView } from './events';
import { HealthView } from './health';
import { Help, helping } from './help';
import { Login, Offline, Starting } from './login';
import { More } from './more';
import { Nav } from './nav';
import { Overview } from './overview';
import { PolicyView } from './policy';
import { SearchView } from './search';
import { Banner } from './status';
import { WorkView } from './work';

const GO: Record<string, string> = { 1: 'sessions', 2: 'work', 3: 'events', 4: 'policy', 5: 'health', 6: 'admin' };
let followed = false;

function Current() {
  const { view } = route.value;
  if (view === 'work') return <WorkView />;
  if (view === 'events') return <EventsView />;
  if (view === 'policy') return <PolicyView />;
  if (view === 'health') return <HealthView />;
  if (view === 'admin') return <Admin />;
  if (view === 'search') return <SearchView />;
  return <Overview />;
}

function Inside() {
  useEffect(() => {
    if (!followed) {
      followed = true;
      followSessions();
      followWork();
      followFeatures();
    }
    void read();
    void readWork();
    void readRuns();
    void lookForFeatures();
  }, []);
  const focusSearch = () => {
    if (searchable.value) location.hash = hrefOf('search');
    else if (route.value.view !== 'sessions') location.hash = hrefOf('sessions');
    setTimeout(() => document.querySelector<HTMLInputElement>('input[type=search]')?.focus(), 30);
  };
  useKeys({
    '/': focusSearch,
    '?': () => {
      helping.value = true;
    },
    ...Object.fromEntries(
      Object.entries(GO).map(([key, view]) => [
        key,
        () => {
          location.hash = hrefOf(view);
        },
      ]),
    ),
  });
  return (
    <div class={`shell ${openSession.value ? 'has-open' : ''} view-${route.value.view}`}>
      <a
        class="skip"
        href="#main"
        onClick={event => {
          event.preventDefault();
          document.getElementById('main')?.focus();
        }}
      >
        To the content
      </a>
      <Nav />
      <main id="main" tabIndex={-1}>
        <Banner />
        <Current />
      </main>
      <Help />
      <More />
    </div>
  );
}

export function App() {
  const at = entry.value;
  return (
    <>
      {at === 'in' ? <Inside /> : at === 'out' ? <Login /> : at === 'offline' ? <Offline /> : <Starting />}
      <Questions />
      <Toasts />
    </>
  );
}
