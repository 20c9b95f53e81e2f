// view=llm as the body of OpenAI Chat Completions, POST /v1/chat/completions.
// - Each result is a message of its own, role "tool", directly behind the assistant message with its call.
// - A tool message holds text only: images of results follow in a user message, behind all results of that answer.
// - Thinking is not sent back; an assistant message needs content or tool_calls.
import { merged, rowsOf, systemOf, textOf } from "./rows.mjs";

export function toOpenAIChat(view, model = "gpt-test") {
  const messages = [];
  const system = systemOf(view);
  if (system) messages.push({ role: "system", content: system });
  for (const row of merged(rowsOf(view), (row) => row.role)) {
    if (row.role === "tool") messages.push(...resultsOf(row));
    else if (row.role === "user") messages.push({ role: "user", content: row.parts.map(partOf) });
    else messages.push(...assistantOf(row));
  }
  return { model, messages };
}

function assistantOf(row) {
  const content = textOf(row.parts);
  const tool_calls = row.parts.filter((part) => part.call).map(({ call }) => (
    { id: call.id, type: "function", function: { name: call.name, arguments: JSON.stringify(call.arguments) } }));
  if (!content && !tool_calls.length) return [];  // nothing but thinking
  return [{ role: "assistant", ...(content && { content }), ...(tool_calls.length && { tool_calls }) }];
}

function resultsOf(row) {
  const images = row.parts.flatMap(({ result }) => result.parts.filter((part) => part.image));
  const messages = row.parts.map(({ result }) => (
    { role: "tool", tool_call_id: result.id, content: textOf(result.parts) || "(no text)" }));
  if (!images.length) return messages;
  return [...messages, { role: "user", content: [{ type: "text", text: "Images of the results:" }, ...images.map(partOf)] }];
}

const partOf = ({ text, image }) => text
  ? { type: "text", text } : { type: "image_url", image_url: { url: `data:${image.mimeType};base64,${image.data}` } };
