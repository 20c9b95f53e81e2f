// A short word at the edge of the page, also read out.
import { signal } from '@preact/signals';

interface Note {
  id: number;
  text: string;
  tone: 'good' | 'bad';
}
const notes = signal<Note[]>([]);
let next = 0;

export function toast(text: string, tone: Note['tone'] = 'good') {
  const note = { id: next++, text, tone };
  notes.value = [...notes.value.slice(-3), note];
  setTimeout(
    () => {
      notes.value = notes.value.filter(one => one !== note);
    },
    tone === 'bad' ? 8000 : 3000,
  );
}

// Runs an action; says that it was done, or why not. True when it was.
export async function doing(done: string, action: () => Promise<unknown>): Promise<boolean> {
  try {
    await action();
    if (done) toast(done);
    return true;
  } catch (error) {
    toast((error as Error).message, 'bad');
    return false;
  }
}

export const Toasts = () => (
  <div class="toasts" role="status" aria-live="polite">
    {notes.value.map(note => (
      <div key={note.id} class={`toast ${note.tone}`}>
        {note.text}
      </div>
    ))}
  </div>
);
