// The form that makes a token.
import { useState } from 'preact/hooks';
import { ask, type Schemas } from '../../api/client';
import { Field } from '../../ui/basics';
import { doing } from '../../ui/toast';

const ROLES: [string, string][] = [
  ['viewer', 'reads and follows'],
  ['bridge', 'brings messages in and out'],
  ['runner', 'answers'],
  ['operator', 'all but tokens'],
  ['metrics', '/metrics only'],
  ['admin', 'everything'],
];
const EMPTY = { role: 'viewer', note: '', agents: '', keyPrefix: '', channel: '', days: '' };

export function NewToken({ onMade }: { onMade: (token: Schemas['NewTokenReply']) => void }) {
  const [given, setGiven] = useState(EMPTY);
  const field = (name: keyof typeof EMPTY, label: string, hint: string, type = 'text') => (
    <Field label={label}>
      <input
        type={type}
        min="1"
        placeholder={hint}
        value={given[name]}
        onInput={event => setGiven({ ...given, [name]: event.currentTarget.value })}
      />
    </Field>
  );
  const make = () =>
    doing('Made', async () => {
      const agents = given.agents.split(/[\s,]+/).filter(Boolean),
        days = Number(given.days);
      onMade(
        await ask('/v1/admin/tokens', {
          method: 'POST',
          body: {
            role: given.role,
            ...(given.note && { note: given.note }),
            ...(agents.length && { agents }),
            ...(given.keyPrefix && { keyPrefix: given.keyPrefix }),
            ...(given.channel && { channel: given.channel }),
            ...(days > 0 && { expiresAt: Date.now() + days * 86_400_000 }),
          },
        }),
      );
      setGiven(EMPTY);
    });
  return (
    <details class="card new-token-form">
      <summary>
        <strong>Make a token</strong>
      </summary>
      <form
        onSubmit={event => {
          event.preventDefault();
          void make();
        }}
      >
        <div class="fields">
          <Field label="Role">
            <select value={given.role} onChange={event => setGiven({ ...given, role: event.currentTarget.value })}>
              {ROLES.map(([role, does]) => (
                <option key={role} value={role}>
                  {role}: {does}
                </option>
              ))}
            </select>
          </Field>
          {field('note', 'Note', 'whose it is')}
          {field('agents', 'Agents', 'all')}
          {field('keyPrefix', 'Keys that begin with', 'any')}
          {field('channel', 'Channel', 'any')}
          {field('days', 'Good for days', 'for ever', 'number')}
        </div>
        <footer class="form-foot">
          <button type="submit" class="primary">
            Make it
          </button>
        </footer>
      </form>
    </details>
  );
}
