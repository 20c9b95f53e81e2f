// What the edited rules would have decided otherwise, over the last 1 000 messages that were sent.
import { useState } from 'preact/hooks';
import type { Policy } from './draft';
import { ask, type Delivery, type Schemas } from '../../api/client';
import { sessionHref } from '../../state/route';
import { Badge } from '../../ui/basics';
import { doing } from '../../ui/toast';

interface Change {
  delivery: Delivery;
  now: Schemas['SendDecision'];
  then: Schemas['SendDecision'];
}

async function lastSends(): Promise<Delivery[]> {
  const all: Delivery[] = [];
  for (let cursor: string | null = null; all.length < 1000;) {
    const page: { data: Delivery[]; page: { next: string | null } } = await ask('/v1/deliveries', {
      query: { limit: 200, cursor },
    });
    all.push(...page.data);
    cursor = page.page.next;
    if (!cursor) break;
  }
  return all.slice(0, 1000);
}

export function WhatIf({ policy }: { policy: Policy | null }) {
  const [found, setFound] = useState<{ of: number; changes: Change[] } | null>(null),
    [busy, setBusy] = useState(false);
  const compare = async () => {
    setBusy(true);
    await doing('', async () => {
      const sends = await lastSends(),
        changes: Change[] = [];
      for (let n = 0; n < sends.length; n += 100) {
        const part = sends.slice(n, n + 100);
        const cases = part.map(one => ({
          sessionKey: one.key,
          channel: one.channel,
          ...(one.to ? { to: one.to } : {}),
          ...(one.accountId ? { accountId: one.accountId } : {}),
        }));
        const decide = (body: object) =>
          ask<{ results: Schemas['SendDecision'][] }>('/v1/policy/evaluate', { method: 'POST', body });
        const [now, then] = await Promise.all([decide({ cases }), decide({ cases, policy })]);
        part.forEach((delivery, at) => {
          const before = now.results[at]!,
            after = then.results[at]!;
          if (before.action !== after.action) changes.push({ delivery, now: before, then: after });
        });
      }
      setFound({ of: sends.length, changes });
    });
    setBusy(false);
  };
  return (
    <section class="card" aria-label="What would have changed">
      <h2>What would have changed</h2>
      <p class="soft">Decides the last 1 000 deliveries once more, by the rules in force and by the edited ones.</p>
      <button type="button" disabled={!policy || busy} onClick={() => void compare()}>
        {busy ? 'Comparing…' : policy ? 'Compare' : 'Edit the rules first'}
      </button>
      {found && (
        <div aria-live="polite">
          <p>
            {found.changes.length
              ? `${found.changes.length} of ${found.of} sends would have been decided otherwise:`
              : `None of ${found.of} sends would have been decided otherwise.`}
          </p>
          <ul class="lines">
            {found.changes.slice(0, 50).map(({ delivery, now, then }) => (
              <li key={delivery.deliveryId}>
                <Badge tone={now.action === 'deny' ? 'bad' : 'good'}>{now.action}</Badge> →{' '}
                <Badge tone={then.action === 'deny' ? 'bad' : 'good'}>{then.action}</Badge>{' '}
                <a href={sessionHref(delivery, undefined, { at: delivery.seq })}>
                  {delivery.channel} {delivery.to}
                </a>
              </li>
            ))}
          </ul>
        </div>
      )}
    </section>
  );
}
