// view=llm as the parameters of Google's generateContent (@google/genai). In the REST body systemInstruction stands beside
// contents.
// - The model's role is "model". Results are functionResponse parts of the next user content, as many as there are calls.
// - A functionResponse names its tool and holds an object; images of results follow in a content of their own.
// - Thinking is not sent back.
import { merged, rowsOf, systemOf, textOf } from "./rows.mjs";

export function toGemini(view, model = "gemini-test") {
  const system = systemOf(view);
  const contents = merged(rowsOf(view), (row) => row.role).flatMap(contentsOf).filter(({ parts }) => parts.length);
  return { model, contents, ...(system && { config: { systemInstruction: { parts: [{ text: system }] } } }) };
}

function contentsOf(row) {
  if (row.role !== "tool")
    return [{ role: row.role === "assistant" ? "model" : "user", parts: row.parts.map(partOf).filter(Boolean) }];
  const responses = row.parts.map(({ result }) => {
    const said = textOf(result.parts) || "(no output)";
    const response = result.isError ? { error: said } : { output: said };
    return { functionResponse: { id: result.id, name: result.name, response } };
  });
  const images = row.parts.flatMap(({ result }) => result.parts.filter((part) => part.image).map(partOf));
  return [{ role: "user", parts: responses }, { role: "user", parts: images }];
}

function partOf({ text, image, call }) {
  if (text) return { text };
  if (image) return { inlineData: image };
  return call ? { functionCall: { id: call.id, name: call.name, args: call.arguments } } : null;
}
