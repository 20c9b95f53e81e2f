// What a session is: its metadata as a form and as JSON, its send policy, and what can be done with it.
import { useState } from 'preact/hooks';
import type { Place, Session } from '../../api/client';
import { may } from '../../state/who';
import { Actions } from './actions';
import { EntryForm } from './entry_form';
import { EntryJson } from './entry_json';
import { Facts } from './facts';
import { SendPolicyForm } from './send_policy';

export function SessionView({ place, session, again }: { place: Place; session: Session; again: () => void }) {
  const [form, setForm] = useState(true);
  return (
    <div class="scroll pad session-view" tabIndex={0} role="region" aria-label="The session">
      <Facts session={session} />
      <div class="section-head">
        <h2>Metadata</h2>
        <div class="segments" role="group" aria-label="How metadata is shown">
          <button type="button" aria-pressed={form} onClick={() => setForm(true)}>
            Form
          </button>
          <button type="button" aria-pressed={!form} onClick={() => setForm(false)}>
            JSON
          </button>
        </div>
      </div>
      {form ? (
        <EntryForm key={String(session.sessionId)} place={place} session={session} again={again} />
      ) : (
        <EntryJson place={place} session={session} again={again} />
      )}
      <h2>May the agent send here?</h2>
      <SendPolicyForm place={place} />
      {may('write') && (
        <>
          <h2>Actions</h2>
          <Actions place={place} session={session} again={again} />
        </>
      )}
    </div>
  );
}
