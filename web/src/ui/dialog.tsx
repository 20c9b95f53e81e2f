// Questions before an action, in the browser's own modal dialog: it keeps the focus inside and Escape closes it.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { Icon } from './icons';

interface Shown {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
}

export function Modal({ title, onClose, children, look = '' }: Shown & { look?: string }) {
  const ref = useRef<HTMLDialogElement>(null);
  // Not later: what is typed at once is for the dialog.
  useLayoutEffect(() => {
    const dialog = ref.current!;
    const before = document.activeElement as HTMLElement | null;
    if (!dialog.open) dialog.showModal();
    return () => {
      dialog.close(); // while it is open, nothing behind it takes the focus
      before?.focus?.();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      class={look}
      aria-label={title}
      onClose={() => {
        if (ref.current) onClose(); // not when it is closed because it goes
      }}
      onClick={event => {
        if (event.target === ref.current) onClose();
      }}
    >
      {children}
    </dialog>
  );
}

export const CloseButton = ({ onClose }: { onClose: () => void }) => (
  <button type="button" class="ghost icon-only" aria-label="Close" onClick={onClose}>
    <Icon name="close" />
  </button>
);

// `sheet`: at the lower edge of a phone, within reach of a thumb.
export const Dialog = ({ title, onClose, children, look }: Shown & { look?: 'wide' | 'sheet' }) => (
  <Modal title={title} onClose={onClose} look={look}>
    <div class="dialog">
      <header>
        <h2>{title}</h2>
        <CloseButton onClose={onClose} />
      </header>
      {children}
    </div>
  </Modal>
);

interface Question {
  title: string;
  says: ComponentChildren;
  act: string;
  danger?: boolean;
  answer: (yes: boolean) => void;
}
const question = signal<Question | null>(null);

// Says what an action will do and asks for it. Resolves with the answer.
export const confirm = (title: string, says: ComponentChildren, act: string, danger = false) =>
  new Promise<boolean>(resolve => {
    question.value = {
      title,
      says,
      act,
      danger,
      answer: yes => {
        question.value = null;
        resolve(yes);
      },
    };
  });

export function Questions() {
  const asked = question.value;
  if (!asked) return null;
  return (
    <Dialog title={asked.title} onClose={() => asked.answer(false)}>
      <div class="says">{asked.says}</div>
      <footer>
        <button type="button" autofocus={asked.danger} onClick={() => asked.answer(false)}>
          Cancel
        </button>
        <button
          type="button"
          class={asked.danger ? 'danger' : 'primary'}
          autofocus={!asked.danger}
          onClick={() => asked.answer(true)}
        >
          {asked.act}
        </button>
      </footer>
    </Dialog>
  );
}
