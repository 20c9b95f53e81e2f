// Reads the rows of GET S/messages?view=llm, in the spelling of Pi, OpenAI or Anthropic, into one form:
//   {role: "user" | "assistant" | "tool", parts: [...]}
//   parts: {text}  {image: {mimeType, data}}  {thinking, signature, provider}  {call: {id, name, arguments}}
//          {result: {id, name, isError, parts}}
// The daemon has made calls and results match, so the converters beside this file only rename and group.

/** The rows of a view, without those that say nothing: an interrupted answer may be empty. */
export function rowsOf(view) {
  const names = new Map();  // of called tools, by id: not every result says its own
  const rows = [];
  for (const row of view.data) {
    let parts = row.role === "tool" || row.role === "toolResult" ? [resultOf(row)] : partsOf(row.content ?? row.text);
    for (const call of row.tool_calls ?? [])
      parts.push({ call: { id: call.id, name: call.function.name, arguments: JSON.parse(call.function.arguments) } });
    for (const part of parts) {
      if (part.call) names.set(part.call.id, part.call.name);
      if (part.result) part.result.name = names.get(part.result.id) ?? part.result.name;
      if (part.thinking) part.provider = row.provider;
    }
    // What a person says in the message that brings results comes behind them.
    const results = parts.filter((part) => part.result);
    parts = parts.filter((part) => !part.result);
    if (results.length) rows.push({ role: "tool", parts: results });
    if (parts.length) rows.push({ role: row.role === "assistant" ? "assistant" : "user", parts });
  }
  return rows;
}

/** The system messages, joined. */
export const systemOf = (view) => (
  view.system.map((row) => textOf(partsOf(row.content ?? row.text))).filter(Boolean).join("\n\n"));

export const textOf = (parts) => parts.map((part) => part.text).filter(Boolean).join("\n");

/** Rows of one role that follow each other become one. */
export function merged(rows, roleOf) {
  const out = [];
  for (const row of rows) {
    const role = roleOf(row);
    if (out.at(-1)?.role === role) out.at(-1).parts.push(...row.parts);
    else out.push({ ...row, role, parts: [...row.parts] });
  }
  return out;
}

function partsOf(content) {
  if (typeof content === "string") return content.trim() ? [{ text: content }] : [];
  return (content ?? []).map(partOf).filter(Boolean);
}

function partOf(part) {
  switch (part.type) {
    case "text": return part.text.trim() ? { text: part.text } : null;
    case "thinking": return { thinking: part.thinking, signature: part.thinkingSignature ?? part.signature };
    case "toolCall": return { call: { id: part.id, name: part.name, arguments: part.arguments } };
    case "tool_use": return { call: { id: part.id, name: part.name, arguments: part.input } };
    case "tool_result": return resultOf({ ...part, toolCallId: part.tool_use_id, isError: part.is_error });
    case "image": return { image: part.source
      ? { mimeType: part.source.media_type, data: part.source.data } : { mimeType: part.mimeType, data: part.data } };
    case "image_url": return { image: ofDataUrl(part.image_url.url) };
    default: return null;  // a runner's own
  }
}

const resultOf = (row) => ({ result: {
  id: row.toolCallId ?? row.tool_call_id,
  name: row.toolName ?? row.name,
  isError: row.isError ?? false,
  parts: partsOf(row.content),
} });

function ofDataUrl(url) {
  const [, mimeType, data] = /^data:([^;]*);base64,(.*)$/.exec(url);
  return { mimeType, data };
}
