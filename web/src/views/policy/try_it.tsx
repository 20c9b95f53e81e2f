// Try it: the decision for one address by the rules as they stand on the page, and why not the other rules.
import { useEffect, useState } from 'preact/hooks';
import type { Policy } from './draft';
import { ask, type Schemas } from '../../api/client';
import { Badge, Field } from '../../ui/basics';
import { useLater } from '../../ui/use';

export function TryIt({ policy }: { policy: Policy }) {
  const [given, setGiven] = useState({ sessionKey: '', channel: 'slack', chatType: 'direct', to: '', accountId: '' }),
    [got, setGot] = useState<Schemas['SendDecision'] | null>(null),
    [fault, setFault] = useState('');
  const later = useLater(JSON.stringify({ given, policy }), 200);
  useEffect(() => {
    const body = { ...Object.fromEntries(Object.entries(given).filter(([, value]) => value)), policy, trace: true };
    ask<Schemas['SendDecision']>('/v1/policy/evaluate', { method: 'POST', body }).then(
      decision => {
        setGot(decision);
        setFault('');
      },
      error => {
        setGot(null);
        setFault((error as Error).message);
      },
    );
  }, [later]);
  const field = (name: keyof typeof given, label: string) => (
    <Field label={label}>
      <input value={given[name]} onInput={event => setGiven({ ...given, [name]: event.currentTarget.value })} />
    </Field>
  );
  return (
    <section class="card try" aria-label="Try it">
      <h2>Try it</h2>
      <div class="fields">
        {field('channel', 'Channel')}
        <Field label="Chat">
          <select
            value={given.chatType}
            onChange={event => setGiven({ ...given, chatType: event.currentTarget.value })}
          >
            <option value="">any</option>
            <option>direct</option>
            <option>group</option>
            <option>channel</option>
          </select>
        </Field>
        {field('to', 'To')}
        {field('accountId', 'Account')}
        {field('sessionKey', 'Session key')}
      </div>
      {fault && (
        <p class="notice bad" role="alert">
          {fault}
        </p>
      )}
      {got && (
        <div aria-live="polite">
          <p>
            <Badge tone={got.action === 'deny' ? 'bad' : 'good'}>{got.action}</Badge>{' '}
            <span class="soft">
              by{' '}
              {got.source === 'rule'
                ? `rule ${Number(got.rule) + 1}`
                : got.source === 'session'
                  ? 'the session itself'
                  : 'the default'}
            </span>
          </p>
          {got.trace && got.trace.length > 0 && (
            <ol class="trace">
              {got.trace.map(one => (
                <li key={one.rule} class={one.matched ? 'matched' : 'soft'}>
                  Rule {one.rule + 1}: {one.because}
                </li>
              ))}
            </ol>
          )}
        </div>
      )}
    </section>
  );
}
