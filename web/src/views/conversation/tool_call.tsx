// A tool call with its result folded in.
import { useState } from 'preact/hooks';
import { openTools } from '../../state/folds';
import { timeOfTool } from '../../state/running';
import { text, took } from '../../ui/format';
import { Icon } from '../../ui/icons';
import type { Call, Result } from '../../state/parts';

const SHOWN = 20_000,
  LINES = 12; // of a result, before one asks for more

// The argument that says most, for the folded line.
function gist(args: unknown): string {
  if (args === undefined || args === null) return '';
  if (typeof args !== 'object') return String(args).slice(0, 160);
  const named = args as Record<string, unknown>;
  for (const name of ['command', 'path', 'file', 'query', 'url', 'q', 'message'])
    if (text(named[name])) return text(named[name]).slice(0, 160);
  return JSON.stringify(args).slice(0, 160);
}

export function ResultBody({ result }: { result: Result }) {
  const [whole, setWhole] = useState(false);
  const lines = result.body.slice(0, SHOWN).split('\n'),
    more = lines.length - LINES - 1; // one more line is shown rather than counted
  const shown = whole || more <= 0 ? lines : lines.slice(0, LINES);
  return (
    <>
      {result.images.map((src, n) => (
        <img key={n} class="shot" src={src} alt={`An image that ${result.name || 'the tool'} gave`} loading="lazy" />
      ))}
      {result.body && (
        <pre class={`code ${result.isError ? 'bad' : ''}`} tabIndex={0} role="region" aria-label="Result">
          {shown.join('\n')}
          {result.body.length > SHOWN && shown === lines ? '…' : ''}
        </pre>
      )}
      {shown !== lines && (
        <button type="button" class="small more-lines" onClick={() => setWhole(true)}>
          {lines.length - LINES} more lines
        </button>
      )}
      {!result.body && !result.images.length && <p class="soft">No output.</p>}
    </>
  );
}

const STATES = {
  none: ['none', 'no result yet', 'soft'],
  good: ['check', 'done', 'good-text'],
  bad: ['close', 'failed', 'bad-text'],
} as const;

// One line: how it went, the tool, and what it was asked; of one that failed, what it said instead.
function Line({ name, gist, state, ms }: { name: string; gist: string; state: keyof typeof STATES; ms?: number }) {
  const [icon, words, tone] = STATES[state];
  return (
    <summary>
      <span class={tone} title={words}>
        <Icon name={icon} size={14} />
        <span class="sr-only">{words}</span>
      </span>
      <code class="tool-name">{name}</code>
      <span class={`gist ${state === 'bad' ? 'bad-text' : ''}`}>{gist}</span>
      {ms !== undefined && <span class="soft num">{took(ms)}</span>}
    </summary>
  );
}

export function ToolCall({ call, result }: { call: Call; result?: Result }) {
  return (
    <details class={`tool-call ${result?.isError ? 'bad' : ''}`} open={openTools.value}>
      <Line
        name={call.name || 'tool'}
        gist={result?.isError ? result.body.slice(0, 160) : gist(call.args)}
        state={!result ? 'none' : result.isError ? 'bad' : 'good'}
        ms={result && timeOfTool(call.id, result.at)}
      />
      <div class="tool-body">
        <h3>Arguments</h3>
        <pre class="code" tabIndex={0} role="region" aria-label="Arguments">
          {typeof call.args === 'string' ? call.args : (JSON.stringify(call.args, null, 2) ?? '')}
        </pre>
        {result && (
          <>
            <h3>Result</h3>
            <ResultBody result={result} />
          </>
        )}
      </div>
    </details>
  );
}

export function LooseResult({ result }: { result: Result }) {
  return (
    <details class={`tool-call ${result.isError ? 'bad' : ''}`} open={openTools.value}>
      <Line name={result.name || 'tool'} gist={result.body.slice(0, 160)} state={result.isError ? 'bad' : 'good'} />
      <div class="tool-body">
        <ResultBody result={result} />
      </div>
    </details>
  );
}
