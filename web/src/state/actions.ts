// The actions of the views that are shown. A key or a command performs one; views/commands.ts lists all commands.
import { useLayoutEffect, useRef } from 'preact/hooks';

export type Act = (event?: KeyboardEvent) => void | false; // false: the key is the browser's
export type Action =
  | 'next'
  | 'previous'
  | 'open'
  | 'back'
  | 'turnBefore'
  | 'turnAfter'
  | 'raw'
  | 'write'
  | 'unread'
  | 'stop'
  | 'takeOver'
  | 'handBack'
  | 'modelView'
  | 'details'
  | 'copyCurl'
  | 'pause';
type Actions = Partial<Record<Action, Act | false>>; // false: not now

const shown = new Set<{ current: Actions }>();

export function useActions(actions: Actions) {
  const latest = useRef(actions);
  latest.current = actions;
  useLayoutEffect(() => {
    shown.add(latest); // not later: a key that follows the drawing at once would be lost
    return () => {
      shown.delete(latest);
    };
  }, []);
}

export const actionOf = (name: Action): Act | null =>
  [...shown].map(({ current }) => current[name]).findLast(act => !!act) || null;
