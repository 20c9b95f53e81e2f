// A row of the results: a link that opens it. Where the context stands beside, a first press only shows that.
import type { ComponentChildren } from 'preact';
import { go } from '../../state/route';
import type { Found } from './hits';

export interface RowProps {
  found: Found;
  chosen: boolean;
  beside: boolean; // whether there is room for the context
  onChoose: (id: string) => void;
}

export const Row = ({ found, chosen, beside, onChoose, children }: RowProps & { children: ComponentChildren }) => (
  <li>
    <a
      class="hit"
      href={found.href}
      data-found={found.id}
      aria-current={chosen ? 'true' : undefined}
      onFocus={() => onChoose(found.id)}
      onClick={event => {
        const isEnter = event.detail === 0;
        if (!beside || isEnter || event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        onChoose(found.id);
      }}
      onDblClick={() => go(found.href)}
    >
      {children}
    </a>
  </li>
);
