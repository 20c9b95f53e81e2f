// The states of a view: while it reads, when there is nothing, and when something went wrong.
import type { ComponentChildren } from 'preact';
import { Refusal } from '../api/client';
import { Icon } from './icons';

export function Loading({ lines = 4 }: { lines?: number }) {
  return (
    <div class="loading" role="status" aria-label="Reading">
      {Array.from({ length: lines }, (_, n) => (
        <span key={n} />
      ))}
    </div>
  );
}

export function Empty({
  title,
  children,
  icon = 'layers',
}: {
  title: string;
  children?: ComponentChildren;
  icon?: string;
}) {
  return (
    <div class="empty">
      <Icon name={icon} size={28} />
      <p class="empty-title">{title}</p>
      {children && <div class="soft">{children}</div>}
    </div>
  );
}

// Says what went wrong, and what to do about it. `again` asks once more.
export function Trouble({ error, again }: { error: unknown; again?: () => void }) {
  const refusal = error instanceof Refusal ? error : null;
  const title =
    refusal?.status === 403
      ? 'This token may not see that.'
      : refusal?.status === 0
        ? 'The daemon does not answer.'
        : refusal?.status === 404
          ? 'It is not there.'
          : 'That did not work.';
  return (
    <div class="empty" role="alert">
      <Icon name="warn" size={28} />
      <p class="empty-title">{title}</p>
      <p class="soft">{(error as Error).message}</p>
      {again && refusal?.status !== 403 && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}
