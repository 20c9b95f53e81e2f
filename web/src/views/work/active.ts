// Reads what runs now, and which runners are there.
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { ask, idOf, pathOf, type Session } from '../../api/client';
import { listen } from '../../live/hub';
import { isRunning } from '../../state/sessions';
import { text } from '../../ui/format';

export interface Active {
  session: Session;
  step: number;
  tool: string;
}

// Of the newest 200 sessions those that run, then what the events say.
export function useActive() {
  const active = useSignal<Map<string, Active>>(new Map()),
    runners = useSignal<{ runner: string; lastAt: number }[]>([]);
  const read = () =>
    Promise.all([
      ask<{ data: Session[] }>('/v1/sessions', { query: { limit: 200 } }).then(
        got => {
          active.value = new Map(
            got.data.filter(isRunning).map(session => [idOf(session), { session, step: 0, tool: '' }]),
          );
        },
        () => {},
      ),
      ask<{ data: { runner: string; lastAt: number }[] }>('/v1/runners').then(
        got => {
          runners.value = got.data;
        },
        () => {},
      ),
    ]);
  useEffect(() => {
    void read();
    return listen(events => {
      for (const event of events) {
        const id = idOf(event),
          known = active.value.get(id);
        if (event.type === 'run.finished') {
          const next = new Map(active.value);
          next.delete(id);
          active.value = next;
        }
        if (event.type === 'run.started' && !known)
          void ask<Session>(pathOf({ agent: event.agent!, key: event.key! })).then(
            session => {
              if (isRunning(session)) active.value = new Map(active.value).set(id, { session, step: 0, tool: '' });
            },
            () => {},
          );
        if (known && event.type === 'step.started')
          active.value = new Map(active.value).set(id, { ...known, step: Number(event.data.step), tool: '' });
        if (known && event.type === 'tool.started')
          active.value = new Map(active.value).set(id, { ...known, tool: text(event.data.tool) });
        if (known && event.type === 'tool.finished')
          active.value = new Map(active.value).set(id, { ...known, tool: '' });
      }
    });
  }, []);
  return { active: [...active.value.values()], runners: runners.value };
}
