// Does something to a session as it was shown, after saying what it will do. When somebody changed the session meanwhile, it is said and
// asked again.
import type { ComponentChildren } from 'preact';
import { ask, pathOf, Refusal, type Place, type Session } from '../../api/client';
import { confirm } from '../../ui/dialog';
import { count } from '../../ui/format';
import { toast } from '../../ui/toast';

export interface Action {
  title: string;
  says: (session: Session) => ComponentChildren; // items of a list
  button: string;
  done: string;
  call: (match: Record<string, string>) => Promise<unknown>;
  danger?: boolean;
}

export const manyOf = (session: Session) => `${count(Number(session.messageCount) || 0)} messages`;
const changed = (error: unknown) => error instanceof Refusal && error.status === 412;

// Returns whether it was done. `reread`: shows the session anew.
export async function act(place: Place, session: Session, action: Action, reread: () => void): Promise<boolean> {
  for (let shown = session, again = false; ; again = true) {
    const says = (
      <>
        {again && <p class="notice">The session was changed meanwhile. Nothing was done yet.</p>}
        <ul>
          {action.says(shown)}
          {shown.activeRun && <li>The active run is stopped; its answer so far is kept.</li>}
        </ul>
      </>
    );
    if (!(await confirm(action.title, says, action.button, action.danger))) return false;
    try {
      await action.call({ 'If-Match': `"r${String(shown.rev)}"` });
      toast(action.done);
      return true;
    } catch (error) {
      try {
        if (!changed(error)) throw error;
        reread();
        shown = await ask<Session>(pathOf(place));
      } catch (trouble) {
        toast((trouble as Error).message, 'bad');
        return false;
      }
    }
  }
}
