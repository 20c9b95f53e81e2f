// The fields that people change most. Saved with If-Match: what somebody else changed meanwhile is shown, not overwritten.
import { useState } from 'preact/hooks';
import { ask, pathOf, Refusal, type Place, type Session } from '../../api/client';
import { may } from '../../state/who';
import { Field } from '../../ui/basics';
import { text } from '../../ui/format';
import { toast } from '../../ui/toast';
import { Conflict } from './conflict';

type Kind = 'text' | 'number' | string[];
const FIELDS: [name: string, label: string, kind: Kind][] = [
  ['name', 'Name', 'text'],
  ['label', 'Label', 'text'],
  ['task', 'Task', 'text'],
  ['modelOverride', 'Model', 'text'],
  ['providerOverride', 'Provider', 'text'],
  ['thinkingLevel', 'Thinking', 'text'],
  ['groupActivation', 'Answers in groups', ['mention', 'always']],
  ['queueMode', 'While a run is active', ['collect', 'followup', 'steer', 'steer-backlog', 'interrupt']],
  ['queueCap', 'Waiting inputs, at most', 'number'],
  ['permissionMode', 'Permission mode', 'text'],
];

export const save = (place: Place, rev: unknown, patch: Record<string, unknown>) =>
  ask<Session>(pathOf(place), { method: 'PATCH', body: patch, headers: { 'If-Match': `"r${String(rev)}"` } });

export function EntryForm({ place, session, again }: { place: Place; session: Session; again: () => void }) {
  const [edits, setEdits] = useState<Record<string, string>>({}),
    [base, setBase] = useState<Session | null>(null),
    [conflict, setConflict] = useState<Session | null>(null);
  const shown = (name: string) =>
    edits[name] ?? (session[name] === undefined || session[name] === null ? '' : String(session[name]));
  const edit = (name: string, value: string) => {
    setBase(old => old ?? session);
    setEdits({ ...edits, [name]: value });
  };
  const patch = () =>
    Object.fromEntries(
      FIELDS.filter(([name]) => name in edits).map(([name, , kind]) => [
        name,
        edits[name] === '' ? null : kind === 'number' ? Number(edits[name]) : edits[name],
      ]),
    );
  const write = async (rev: unknown) => {
    try {
      await save(place, rev, patch());
      toast('Saved');
      setEdits({});
      setBase(null);
      setConflict(null);
      again();
    } catch (error) {
      if (error instanceof Refusal && error.status === 412) setConflict(await ask<Session>(pathOf(place)));
      else toast((error as Error).message, 'bad');
    }
  };
  const changed = Object.keys(edits).length > 0,
    allowed = may('write');
  return (
    <form
      class="entry-form"
      onSubmit={event => {
        event.preventDefault();
        void write(base?.rev ?? session.rev);
      }}
    >
      <div class="fields">
        {FIELDS.map(([name, label, kind]) => (
          <Field key={name} label={label}>
            {Array.isArray(kind) ? (
              <select disabled={!allowed} value={shown(name)} onChange={event => edit(name, event.currentTarget.value)}>
                <option value="">default</option>
                {kind.map(one => (
                  <option key={one} value={one}>
                    {one}
                  </option>
                ))}
              </select>
            ) : (
              <input
                disabled={!allowed}
                dir="auto"
                type={kind}
                value={shown(name)}
                onInput={event => edit(name, event.currentTarget.value)}
              />
            )}
          </Field>
        ))}
      </div>
      {conflict && base && (
        <Conflict
          mine={patch()}
          base={base}
          theirs={conflict}
          onKeep={() => void write(conflict.rev)}
          onDrop={() => {
            setEdits({});
            setBase(null);
            setConflict(null);
            again();
          }}
        />
      )}
      {allowed && (
        <footer class="form-foot">
          <button
            type="button"
            disabled={!changed}
            onClick={() => {
              setEdits({});
              setBase(null);
            }}
          >
            Discard
          </button>
          <button type="submit" class="primary" disabled={!changed}>
            Save
          </button>
        </footer>
      )}
      {!allowed && <p class="soft">{text('This token may read sessions, not change them.')}</p>}
    </form>
  );
}
