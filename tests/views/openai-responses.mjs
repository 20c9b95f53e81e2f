// view=llm as the body of OpenAI Responses, POST /v1/responses.
// - A call is an item of its own, "function_call"; its result is "function_call_output" with the same call_id.
// - Pi keeps a call's two ids of this API as "call_id|item_id"; the first one is the call's.
// - System messages are the instructions. Thinking of other requests is not sent back.
import { rowsOf, systemOf } from "./rows.mjs";

export function toOpenAIResponses(view, model = "gpt-test") {
  const instructions = systemOf(view);
  const input = rowsOf(view).flatMap((row) => row.parts.length ? itemsOf(row) : []);
  return { model, input, store: false, ...(instructions && { instructions }) };
}

function itemsOf(row) {
  if (row.role === "tool") return row.parts.map(({ result }) => ({
    type: "function_call_output", call_id: callId(result.id),
    output: result.parts.length ? result.parts.map(partOf) : "(no output)" }));
  if (row.role === "user") return [{ role: "user", content: row.parts.map(partOf) }];
  return row.parts.flatMap(({ text, call }) => {
    if (text) return [{ role: "assistant", content: text }];
    if (!call) return [];
    return [{ type: "function_call", call_id: callId(call.id), name: call.name, arguments: JSON.stringify(call.arguments) }];
  });
}

const callId = (id) => id.split("|")[0];

const partOf = ({ text, image }) => text
  ? { type: "input_text", text }
  : { type: "input_image", detail: "auto", image_url: `data:${image.mimeType};base64,${image.data}` };
