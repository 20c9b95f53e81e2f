// The whole entry as JSON. Saved as a merge patch of what was changed.
import { useState } from 'preact/hooks';
import { ask, pathOf, Refusal, type Place, type Session } from '../../api/client';
import { may } from '../../state/who';
import { Json } from '../../ui/basics';
import { json } from '../../ui/format';
import { toast } from '../../ui/toast';
import { Conflict } from './conflict';
import { save } from './entry_form';

function patchOf(before: Session, after: Record<string, unknown>): Record<string, unknown> {
  const patch: Record<string, unknown> = {};
  for (const name of Object.keys(after))
    if (JSON.stringify(after[name]) !== JSON.stringify(before[name])) patch[name] = after[name];
  for (const name of Object.keys(before)) if (!(name in after)) patch[name] = null;
  return patch;
}

export function EntryJson({ place, session, again }: { place: Place; session: Session; again: () => void }) {
  const [draft, setDraft] = useState<string | null>(null),
    [base, setBase] = useState<Session>(session),
    [fault, setFault] = useState(''),
    [conflict, setConflict] = useState<{ theirs: Session; patch: Record<string, unknown> } | null>(null);
  if (draft === null)
    return (
      <>
        <Json value={session} label="The entry" />
        {may('write') && (
          <footer class="form-foot">
            <button
              type="button"
              onClick={() => {
                setBase(session);
                setDraft(json(session));
              }}
            >
              Edit
            </button>
          </footer>
        )}
      </>
    );
  const write = async (rev: unknown) => {
    let patch: Record<string, unknown>;
    try {
      patch = patchOf(base, JSON.parse(draft) as Record<string, unknown>);
    } catch (error) {
      setFault((error as Error).message);
      return;
    }
    try {
      await save(place, rev, patch);
      toast('Saved');
      setDraft(null);
      setConflict(null);
      again();
    } catch (error) {
      if (error instanceof Refusal && error.status === 412)
        setConflict({ theirs: await ask<Session>(pathOf(place)), patch });
      else
        setFault(
          error instanceof Refusal
            ? [
                error.message,
                ...((error.body.errors ?? []) as { pointer: string; detail: string }[]).map(
                  one => `${one.pointer}: ${one.detail}`,
                ),
              ].join('\n')
            : String(error),
        );
    }
  };
  return (
    <form
      onSubmit={event => {
        event.preventDefault();
        void write(base.rev);
      }}
    >
      <textarea
        class="code-edit"
        rows={22}
        spellcheck={false}
        aria-label="The entry as JSON"
        value={draft}
        onInput={event => {
          setDraft(event.currentTarget.value);
          setFault('');
        }}
      />
      {fault && (
        <p class="notice bad pre" role="alert">
          {fault}
        </p>
      )}
      {conflict && (
        <Conflict
          mine={conflict.patch}
          base={base}
          theirs={conflict.theirs}
          onKeep={() => void write(conflict.theirs.rev)}
          onDrop={() => {
            setDraft(null);
            setConflict(null);
            again();
          }}
        />
      )}
      <footer class="form-foot">
        <button
          type="button"
          onClick={() => {
            setDraft(null);
            setFault('');
            setConflict(null);
          }}
        >
          Cancel
        </button>
        <button type="submit" class="primary">
          Save changes
        </button>
      </footer>
    </form>
  );
}
