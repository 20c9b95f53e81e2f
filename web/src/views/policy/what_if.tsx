// In which conversations the edited rules decide otherwise than those in force: of the last 1 000.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Policy } from './draft';
import { ask, idOf, type Schemas, type Session } from '../../api/client';
import { sessionHref } from '../../state/route';
import { titleOf } from '../../state/sessions';
import { Badge, Channel } from '../../ui/basics';
import { text } from '../../ui/format';
import { doing } from '../../ui/toast';

type Decision = Schemas['SendDecision'];
interface Change {
  session: Session;
  now: Decision;
  then: Decision;
}
const FIELDS = 'agent,name,label,displayName,subject,firstMessage,channel,lastChannel';
const MOST = 1000,
  SHOWN = 50,
  PART = 100; // conversations that are decided at once

async function lastSessions(): Promise<Session[]> {
  const all: Session[] = [];
  for (let cursor: string | null = null; all.length < MOST;) {
    const page: Schemas['SessionList'] = await ask('/v1/sessions', { query: { limit: 200, fields: FIELDS, cursor } });
    all.push(...(page.data as Session[]));
    cursor = page.page.next;
    if (!cursor) break;
  }
  return all.slice(0, MOST);
}

async function changesOf(sessions: Session[], policy: Policy): Promise<Change[]> {
  const cases = sessions.map(({ key }) => ({ sessionKey: key }));
  const decide = (body: object) => ask<{ results: Decision[] }>('/v1/policy/evaluate', { method: 'POST', body });
  const [now, then] = await Promise.all([decide({ cases }), decide({ cases, policy })]);
  return sessions.flatMap((session, at) => {
    const change = { session, now: now.results[at]!, then: then.results[at]! };
    return change.now.action === change.then.action ? [] : [change];
  });
}

const toneOf = ({ action }: Decision) => (action === 'deny' ? 'bad' : 'good');

export function WhatIf({ policy }: { policy: Policy | null }) {
  const [found, setFound] = useState<{ of: number; changes: Change[] } | null>(null),
    [busy, setBusy] = useState(false);
  const current = useRef(policy);
  current.current = policy;
  useEffect(() => setFound(null), [policy]); // it was about other rules
  const compare = async () => {
    setBusy(true);
    await doing('', async () => {
      const sessions = await lastSessions(),
        changes: Change[] = [];
      for (let n = 0; n < sessions.length; n += PART)
        changes.push(...(await changesOf(sessions.slice(n, n + PART), policy!)));
      if (current.current === policy) setFound({ of: sessions.length, changes });
    });
    setBusy(false);
  };
  return (
    <section class="card" aria-label="What the draft changes">
      <h2>What the draft changes</h2>
      <p class="soft">Decides for the last 1 000 conversations, by the rules in force and by the edited ones.</p>
      <button type="button" disabled={!policy || busy} onClick={() => void compare()}>
        {busy ? 'Comparing…' : policy ? 'Compare' : 'Edit the rules first'}
      </button>
      {found && (
        <div aria-live="polite">
          <p>
            {found.changes.length
              ? `Decided otherwise in ${found.changes.length} of ${found.of} conversations:`
              : `In none of ${found.of} conversations it is decided otherwise.`}
          </p>
          <ul class="lines">
            {found.changes.slice(0, SHOWN).map(({ session, now, then }) => (
              <li key={idOf(session)}>
                <Badge tone={toneOf(now)}>{now.action}</Badge> → <Badge tone={toneOf(then)}>{then.action}</Badge>{' '}
                <a href={sessionHref({ agent: text(session.agent), key: text(session.key) })} dir="auto">
                  {titleOf(session)}
                </a>{' '}
                <Channel name={text(session.channel) || text(session.lastChannel)} />
              </li>
            ))}
          </ul>
          {found.changes.length > SHOWN && <p class="soft">and {found.changes.length - SHOWN} more</p>}
        </div>
      )}
    </section>
  );
}
