// The frame: where one can go, how the connection is, and the view that the address names.
import { useEffect } from 'preact/hooks';
import { openSession, route } from '../state/route';
import { followFeatures, lookForFeatures } from '../state/features';
import { followSessions } from '../state/session_events';
import { read } from '../state/session_pages';
import { entry } from '../state/who';
import { followWork, readRuns, readWork } from '../state/work';
import { Questions } from '../ui/dialog';
import { Toasts } from '../ui/toast';
import { useKeys } from '../ui/use';
import { Admin } from './admin';
import { AuditView } from './audit';
import { bindings } from './commands';
import { HealthView } from './health';
import { Help } from './help';
import { Login, Offline, Starting } from './login';
import { More } from './more';
import { Nav } from './nav';
import { Overview } from './overview';
import { Palette } from './palette';
import { PolicyView } from './policy';
import { SearchView } from './search';
import { Banner } from './status';
import { WorkView } from './work';

let followed = false;

function Current() {
  const { view } = route.value;
  if (view === 'work') return <WorkView />;
  if (view === 'policy') return <PolicyView />;
  if (view === 'health') return <HealthView />;
  if (view === 'audit') return <AuditView />;
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
  useKeys(bindings);
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
      <Palette />
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
