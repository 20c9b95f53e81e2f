// The parts of a message: text, thinking, a tool call with its result, an image, and what no view knows.
import { useState } from 'preact/hooks';
import { openThinking } from '../../state/folds';
import { Markdown } from '../../ui/markdown';
import type { Item } from './items';
import type { Part } from '../../state/parts';
import { ToolCall } from './tool_call';

const LONG = 20_000;

export function Text({ source }: { source: string }) {
  const [whole, setWhole] = useState(false);
  return (
    <>
      <Markdown source={source} whole={whole} />
      {source.length > LONG && !whole && (
        <button type="button" class="small" onClick={() => setWhole(true)}>
          All {source.length.toLocaleString()} characters
        </button>
      )}
    </>
  );
}

export function Thinking({ source, open }: { source: string; open?: boolean }) {
  return (
    <details class="thinking" open={open || openThinking.value}>
      <summary>Thinking</summary>
      <div class="pre">{source}</div>
    </details>
  );
}

export function OnePart({ part, results }: { part: Part; results: Extract<Item, { kind: 'message' }>['results'] }) {
  if (part.kind === 'text') return <Text source={part.text} />;
  if (part.kind === 'thinking') return <Thinking source={part.text} />;
  if (part.kind === 'call') return <ToolCall call={part.call} result={results.get(part.call.id)} />;
  if (part.kind === 'image')
    return part.src ? (
      <img class="shot" src={part.src} alt={`An image of this message (${part.type})`} loading="lazy" />
    ) : (
      <p class="aside">[image] {part.type}</p>
    );
  return (
    <details class="aside">
      <summary>[{part.name}]</summary>
      <pre class="code" tabIndex={0}>
        {JSON.stringify(part.value, null, 2).slice(0, LONG)}
      </pre>
    </details>
  );
}
