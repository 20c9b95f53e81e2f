// One field that leads everywhere: to a conversation, a command, or the messages that have some words.
import { useEffect, useRef, useState } from 'preact/hooks';
import { jumping } from '../state/overlays';
import { CloseButton, Modal } from '../ui/dialog';
import { Icon } from '../ui/icons';
import { usePalette, type Result } from './palette_results';

const close = () => {
  jumping.value = false;
};

// After the palette is gone and the focus is back, so that a command finds the page as it was. A dialog below goes, too.
function choose(result: Result) {
  close();
  for (const dialog of document.querySelectorAll<HTMLDialogElement>('dialog[open]')) dialog.close();
  setTimeout(result.run);
}

function Option({ id, result, chosen, onPoint }: { id: string; result: Result; chosen: boolean; onPoint: () => void }) {
  return (
    <div
      id={id}
      role="option"
      class="option"
      aria-selected={chosen}
      onPointerMove={onPoint}
      onClick={() => choose(result)}
    >
      <Icon name={result.icon} size={16} />
      <span class="cut" dir="auto">
        {result.name}
      </span>
      {result.detail && <span class="soft small cut">{result.detail}</span>}
      {result.key && <kbd>{result.key}</kbd>}
    </div>
  );
}

function Box() {
  const [words, setWords] = useState(''),
    [pointed, setPointed] = useState(''),
    list = useRef<HTMLDivElement>(null);
  const groups = usePalette(words),
    all = groups.flatMap(group => group.results);
  const at = Math.max(
    0,
    all.findIndex(result => result.id === pointed),
  );
  useEffect(() => {
    list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  }, [at]);
  const step = (by: number) => setPointed(all[(at + by + all.length) % all.length]?.id ?? '');
  const press = (event: KeyboardEvent) => {
    if (event.isComposing) return;
    const key = event.ctrlKey ? `Ctrl+${event.key}` : event.key;
    if (key === 'ArrowDown' || key === 'Ctrl+n') step(1);
    else if (key === 'ArrowUp' || key === 'Ctrl+p') step(-1);
    else if (key === 'Enter' && all[at]) choose(all[at]);
    else return;
    event.preventDefault();
  };
  let n = 0;
  return (
    <>
      <div class="palette-head">
        <Icon name="search" size={18} />
        <input
          autofocus
          value={words}
          dir="auto"
          role="combobox"
          aria-expanded="true"
          aria-autocomplete="list"
          aria-controls="palette-list"
          aria-activedescendant={all.length ? `palette-${at}` : undefined}
          aria-label="Search or jump"
          placeholder="Search or jump"
          autocomplete="off"
          spellcheck={false}
          onInput={event => {
            setWords(event.currentTarget.value);
            setPointed('');
          }}
          onKeyDown={press}
        />
        <CloseButton onClose={close} />
      </div>
      <div id="palette-list" class="palette-list" role="listbox" aria-label="Results" ref={list}>
        {groups.map(({ title, results }) => (
          <div key={title} role="group" aria-label={title}>
            <div class="group-head" aria-hidden="true">
              <h2>{title}</h2>
            </div>
            {results.map(result => (
              <Option
                key={result.id}
                id={`palette-${n}`}
                result={result}
                chosen={n++ === at}
                onPoint={() => setPointed(result.id)}
              />
            ))}
          </div>
        ))}
        {!all.length && <p class="soft pad">Nothing has these words.</p>}
      </div>
    </>
  );
}

export function Palette() {
  if (!jumping.value) return null;
  return (
    <Modal title="Search or jump" onClose={close} look="palette">
      <Box />
    </Modal>
  );
}
