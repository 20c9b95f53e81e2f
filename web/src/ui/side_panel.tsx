// A panel beside the content: one thing of a list, whole. In a narrow window it lies over the content.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Json } from './basics';
import { Icon } from './icons';
import { useActions } from '../state/actions';

export function SidePanel({
  title,
  raw,
  quiet,
  onClose,
  children,
}: {
  title: string;
  raw?: unknown; // what it shows, as the daemon has it
  quiet?: boolean; // it takes the focus from nobody
  onClose: () => void;
  children: ComponentChildren;
}) {
  const panel = useRef<HTMLElement>(null),
    [isRaw, setRaw] = useState(false);
  useEffect(() => {
    if (quiet) return;
    const before = document.activeElement as HTMLElement | null;
    panel.current?.focus({ preventScroll: true });
    return () => before?.focus?.();
  }, []);
  useActions({ back: !quiet && onClose });
  return (
    <section class="side-panel" aria-label={title} tabIndex={-1} ref={panel}>
      <header class="row">
        <h2 class="grow">{title}</h2>
        {raw !== undefined && (
          <button
            type="button"
            class="ghost icon-only mono"
            aria-label="As JSON"
            aria-pressed={isRaw}
            onClick={() => setRaw(!isRaw)}
          >
            {'{}'}
          </button>
        )}
        <button type="button" class="ghost icon-only" aria-label="Close" onClick={onClose}>
          <Icon name="close" size={16} />
        </button>
      </header>
      {isRaw ? <Json value={raw} label={title} /> : children}
    </section>
  );
}

export function Pairs({ rows }: { rows: [string, ComponentChildren][] }) {
  return (
    <dl class="pairs">
      {rows.map(
        ([name, value]) =>
          value !== undefined &&
          value !== null &&
          value !== '' &&
          value !== false && (
            <div key={name}>
              <dt>{name}</dt>
              <dd dir="auto">{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
