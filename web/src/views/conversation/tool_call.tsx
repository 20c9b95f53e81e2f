// A tool call with its result folded in.
import { Badge } from '../../ui/basics';
import { text } from '../../ui/format';
import { Icon } from '../../ui/icons';
import type { Call, Result } from './parts';

const SHOWN = 20_000;

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
  return (
    <>
      {result.images.map((src, n) => (
        <img key={n} class="shot" src={src} alt={`An image that ${result.name || 'the tool'} gave`} loading="lazy" />
      ))}
      {result.body && (
        <pre class={`code ${result.isError ? 'bad' : ''}`} tabIndex={0} role="region" aria-label="Result">
          {result.body.slice(0, SHOWN)}
          {result.body.length > SHOWN ? '…' : ''}
        </pre>
      )}
      {!result.body && !result.images.length && <p class="soft">No output.</p>}
    </>
  );
}

export function ToolCall({ call, result }: { call: Call; result?: Result }) {
  return (
    <details class={`tool-call ${result?.isError ? 'bad' : ''}`}>
      <summary>
        <Icon name="tool" size={16} />
        <code class="tool-name">{call.name || 'tool'}</code>
        <span class="gist">{gist(call.args)}</span>
        {!result ? (
          <Badge tone="plain">no result yet</Badge>
        ) : result.isError ? (
          <Badge tone="bad">failed</Badge>
        ) : (
          <Badge tone="good">done</Badge>
        )}
      </summary>
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
    <details class={`tool-call ${result.isError ? 'bad' : ''}`}>
      <summary>
        <Icon name="tool" size={16} />
        <code class="tool-name">{result.name || 'tool'}</code>
        <span class="gist">{result.body.slice(0, 160)}</span>
        <Badge tone={result.isError ? 'bad' : 'plain'}>{result.isError ? 'failed' : 'result'}</Badge>
      </summary>
      <div class="tool-body">
        <ResultBody result={result} />
      </div>
    </details>
  );
}
