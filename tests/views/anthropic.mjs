// view=llm as the body of Anthropic Messages, POST /v1/messages.
// - Roles alternate and the user begins: rows of one role become one message, and results are said by the user.
// - The results of an answer stand together at the beginning of the next message.
// - Ids of calls are unique in a request, of letters, digits, _ and -.
// - A thinking block is sent back only with its signature, and only to the provider that signed it. No text is empty.
import { merged, rowsOf, systemOf } from "./rows.mjs";

export function toAnthropic(view, model = "claude-test") {
  const system = systemOf(view);
  const ids = new Ids();
  const messages = merged(rowsOf(view), (row) => row.role === "assistant" ? "assistant" : "user")
    .map((row) => ({ role: row.role, content: row.parts.map((part) => blockOf(part, ids)).filter(Boolean) }))
    .filter((message) => message.content.length);
  if (messages[0]?.role === "assistant") messages.unshift({ role: "user", content: "(The conversation begins.)" });
  return { model, max_tokens: 4096, messages, ...(system && { system: [{ type: "text", text: system }] }) };
}

function blockOf(part, ids) {
  if (part.text) return { type: "text", text: part.text };
  if (part.image) return imageOf(part);
  if (part.thinking !== undefined)
    return part.signature && part.provider === "anthropic"
      ? { type: "thinking", thinking: part.thinking, signature: part.signature } : null;
  const { call, result } = part;
  if (call) return { type: "tool_use", id: ids.ofCall(call.id), name: call.name, input: call.arguments };
  const said = result.parts.length ? result.parts : [{ text: "(no output)" }];
  return { type: "tool_result", tool_use_id: ids.ofResult(result.id), is_error: result.isError,
    content: said.map((inner) => inner.image ? imageOf(inner) : { type: "text", text: inner.text }) };
}

const imageOf = ({ image }) => (
  { type: "image", source: { type: "base64", media_type: image.mimeType, data: image.data } });

/** Makes ids unique: runners of providers without ids number calls from 0 in each answer. */
class Ids {
  #made = new Set();
  #waiting = new Map();  // made ids of calls without a result yet, by the id that they had
  ofCall(id) {
    const clean = id.replaceAll(/[^A-Za-z0-9_-]/g, "_");
    let made = clean;
    for (let n = 2; this.#made.has(made); ++n) made = `${clean}_${n}`;
    this.#made.add(made);
    this.#waiting.set(id, [...(this.#waiting.get(id) ?? []), made]);
    return made;
  }
  ofResult(id) { return this.#waiting.get(id)?.shift() ?? id; }
}
