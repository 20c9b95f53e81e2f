// Reads an entry in the spellings of Pi, OpenAI, Anthropic and Google into the parts that are drawn.
import type { Message } from '../api/client';
import { text } from '../ui/format';

export interface Call {
  id: string;
  name: string;
  args: unknown;
}
export interface Result {
  id: string;
  name: string;
  body: string;
  isError: boolean;
  images: string[];
  seq: number;
  at: number;
}
export type Part =
  | { kind: 'text'; text: string }
  | { kind: 'thinking'; text: string }
  | { kind: 'call'; call: Call }
  | { kind: 'image'; src: string; type: string }
  | { kind: 'other'; value: unknown; name: string };
type Raw = Record<string, unknown>;

const record = (value: unknown): Raw =>
  value && typeof value === 'object' && !Array.isArray(value) ? (value as Raw) : {};
const parsed = (value: unknown): unknown => {
  if (typeof value !== 'string') return value;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return value;
  }
};

const IMAGE = /^image\/(png|jpeg|gif|webp|avif)$/; // no SVG: nothing that could run
function image(part: Raw): Part {
  const source = record(part.source),
    inline = record(part.inlineData ?? part.inline_data);
  const url = text(record(part.image_url).url) || text(part.image_url) || text(part.url);
  const type =
    text(part.mimeType) ||
    text(source.media_type) ||
    text(inline.mimeType) ||
    /^data:([\w/+.-]+);/.exec(url)?.[1] ||
    '';
  const data =
    text(part.data) || text(source.data) || text(inline.data) || /^data:[^,]*;base64,(.*)$/s.exec(url)?.[1] || '';
  return {
    kind: 'image',
    type: type || url.slice(0, 200) || 'image',
    src: IMAGE.test(type) && data ? `data:${type};base64,${data}` : '',
  };
}

function partOf(value: unknown): Part | null {
  if (typeof value === 'string') return value ? { kind: 'text', text: value } : null;
  const part = record(value),
    type = text(part.type);
  if (type === 'text' || type === 'input_text' || type === 'output_text')
    return text(part.text) ? { kind: 'text', text: text(part.text) } : null;
  if (type === 'thinking' || type === 'reasoning')
    return { kind: 'thinking', text: text(part.thinking) || text(part.text) || text(part.summary) };
  if (type === 'redacted_thinking') return { kind: 'thinking', text: '(redacted by the provider)' };
  if (type === 'toolCall' || type === 'tool_use' || type === 'function_call' || part.functionCall) {
    const call = record(part.functionCall ?? part);
    return {
      kind: 'call',
      call: {
        id: text(call.id) || text(call.callId) || text(call.call_id),
        name: text(call.name),
        args: parsed(call.arguments ?? call.input ?? call.args),
      },
    };
  }
  if (type === 'image' || type === 'image_url' || type === 'input_image' || part.inlineData || part.inline_data)
    return image(part);
  if (type === 'tool_result') return null;
  return { kind: 'other', name: type || 'part', value };
}

// Reads the note of a hand-back, which the daemon writes as `[note by Hanne] …`. Null: the message is not a note.
function noteOf(message: Message): { by: string; said: string } | null {
  if (message.synthetic !== true) return null;
  const [, by, said] = /^\[note by (.{1,100}?)\] (.*)$/s.exec(text(message.content)) ?? [];
  return by && said !== undefined ? { by, said } : null;
}

export function partsOf(message: Message): Part[] {
  const note = noteOf(message);
  if (note) return [{ kind: 'text', text: note.said }];
  const content: unknown[] = Array.isArray(message.content) ? message.content : [message.content ?? message.text ?? ''];
  const parts = content.map(partOf).filter(part => part !== null);
  for (const raw of Array.isArray(message.tool_calls) ? (message.tool_calls as unknown[]) : []) {
    const call = record(raw),
      of = record(call.function ?? call);
    parts.push({ kind: 'call', call: { id: text(call.id), name: text(of.name), args: parsed(of.arguments) } });
  }
  for (const attachment of Array.isArray(message.attachments) ? message.attachments : []) {
    const part = record(attachment);
    parts.push(
      text(part.type).startsWith('image') ? image(part) : { kind: 'other', name: 'attachment', value: attachment },
    );
  }
  return parts;
}

const plain = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : (Array.isArray(content) ? content : [content])
        .map(
          part =>
            text(record(part).text) ||
            (partOf(part)?.kind === 'image'
              ? ''
              : part === undefined || part === null
                ? ''
                : typeof part === 'string'
                  ? part
                  : text(record(part).text) || JSON.stringify(part)),
        )
        .filter(Boolean)
        .join('\n');

// The results of tools that an entry holds: one entry of role toolResult or tool, or blocks of a user's (Anthropic).
export function resultsOf(message: Message): Result[] {
  const at = Number(message.timestamp) || 0,
    seq = message.seq;
  const images = (content: unknown) =>
    (Array.isArray(content) ? content : [])
      .map(partOf)
      .flatMap(part => (part?.kind === 'image' && part.src ? [part.src] : []));
  if (/^tool/.test(text(message.role))) {
    const content = message.content ?? message.text;
    return [
      {
        id: text(message.toolCallId) || text(message.tool_call_id),
        name: text(message.toolName) || text(message.name),
        body: plain(content),
        isError: !!message.isError,
        images: images(content),
        seq,
        at,
      },
    ];
  }
  return (Array.isArray(message.content) ? (message.content as unknown[]) : [])
    .map(record)
    .filter(part => part.type === 'tool_result')
    .map(part => ({
      id: text(part.tool_use_id),
      name: '',
      body: plain(part.content),
      isError: !!part.is_error,
      images: images(part.content),
      seq,
      at,
    }));
}

// Returns whether it is for the agent alone: a hint of an operator, or what a person noted when handing back.
export const isInternal = (message: Message) =>
  message.role === 'user' && (message.audience === 'agent' || message.synthetic === true);

export function speakerOf(message: Message): string {
  const author = text(record(message.author).name); // a person of the team, in place of the agent
  if (author) return author;
  const note = noteOf(message);
  if (note) return note.by;
  const from = message.from;
  if (typeof from === 'string') return from;
  const person = record(from);
  return text(person.name) || text(person.username) || text(person.id);
}

export interface Spent {
  input: number;
  output: number;
  cache: number;
  cost: number;
}
export function spentOf(message: Message): Spent | null {
  const usage = record(message.usage);
  if (!Object.keys(usage).length) return null;
  const n = (...names: string[]) => {
    for (const name of names) if (typeof usage[name] === 'number') return usage[name] as number;
    return 0;
  };
  const total = record(usage.cost).total ?? usage.cost ?? usage.costUsd;
  return {
    input: n('input', 'inputTokens', 'input_tokens', 'prompt_tokens'),
    output: n('output', 'outputTokens', 'output_tokens', 'completion_tokens'),
    cache: n('cacheRead', 'cache_read_input_tokens'),
    cost: typeof total === 'number' ? total : 0,
  };
}
