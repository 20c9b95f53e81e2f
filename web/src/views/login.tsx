// Before one is in: the form for a token, and what stands there while the daemon does not answer.
import { useEffect, useState } from 'preact/hooks';
import { refused, signIn } from '../state/who';
import { Empty, Loading } from '../ui/states';

export function Login() {
  const [token, setToken] = useState(''),
    [busy, setBusy] = useState(false);
  useEffect(() => {
    document.title = 'Sign in · sessiond';
  }, []);
  const submit = async () => {
    setBusy(true);
    const given = token;
    setToken('');
    await signIn(given);
    setBusy(false);
  };
  return (
    <main class="gate">
      <form
        id="login"
        class="gate-card"
        onSubmit={event => {
          event.preventDefault();
          void submit();
        }}
      >
        <h1>sessiond</h1>
        <p class="soft">
          Sign in with a token that may read and follow events, a <em>viewer</em>’s for instance. The browser gets a
          cookie for it that no script can read, good for 12 hours.
        </p>
        <label class="field">
          <span>Token</span>
          <input
            id="token"
            type="password"
            value={token}
            autocomplete="off"
            spellcheck={false}
            placeholder="sd_…"
            required
            autofocus
            onInput={event => setToken(event.currentTarget.value)}
            aria-describedby="refused"
          />
        </label>
        <p id="refused" class="bad-text" role="alert">
          {refused.value}
        </p>
        <button type="submit" class="primary" disabled={busy}>
          {busy ? 'Signing in…' : 'Sign in'}
        </button>
        <p class="soft small">
          To make one: <code>sessiond token create --role viewer</code>
        </p>
      </form>
    </main>
  );
}

export const Starting = () => (
  <main class="gate">
    <div class="gate-card">
      <h1 class="sr-only">sessiond</h1>
      <Loading />
    </div>
  </main>
);
export const Offline = () => (
  <main class="gate">
    <h1 class="sr-only">sessiond</h1>
    <Empty title="The daemon does not answer" icon="warn">
      This page tries again every two seconds and goes on by itself.
    </Empty>
  </main>
);
