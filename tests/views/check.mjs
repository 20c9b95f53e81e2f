// Converts views to the bodies of four providers and checks them: node check.mjs FILE, with {"number", "view"} a line.
// Prints {"bodies", "kinds", "wrong": [{number, provider, why}], "faults", "unseen"}: faults are put into good bodies, and
// "unseen" names those that the checks did not see. They must see each.
import { readFileSync } from "node:fs";
import Ajv from "ajv";
import { toAnthropic } from "./anthropic.mjs";
import { toGemini } from "./gemini.mjs";
import { toOpenAIChat } from "./openai-chat.mjs";
import { toOpenAIResponses } from "./openai-responses.mjs";
import { wrongInAnthropic, wrongInGemini, wrongInOpenAIChat, wrongInOpenAIResponses } from "./rules.mjs";
import { schemas } from "./schemas.mjs";

const ajv = new Ajv({ strict: false, logger: false });
ajv.addSchema(await schemas(), "types");
const provider = (type, convert, rules) => (
  { type, convert, rules, fits: ajv.getSchema(`types#/definitions/${type}`) });
const providers = [
  provider("OpenAIChat", toOpenAIChat, wrongInOpenAIChat),
  provider("OpenAIResponses", toOpenAIResponses, wrongInOpenAIResponses),
  provider("Anthropic", toAnthropic, wrongInAnthropic),
  provider("Gemini", toGemini, wrongInGemini)];

function wrongIn({ fits, rules }, body) {
  if (!fits(body)) return fits.errors.slice(0, 3).map((error) => `${error.instancePath} ${error.message}`);
  return rules(body);
}

// Faults that no body may have. Each returns whether there was a place for it.
const isCall = (item) => item.tool_calls || item.type === "function_call" || [item.content, item.parts].some(
  (parts) => Array.isArray(parts) && parts.some((part) => part.type === "tool_use" || part.functionCall));
const listOf = (body) => body.messages ?? body.input ?? body.contents;
const lastCall = (body) => listOf(body).findLastIndex(isCall);
const faults = {
  "a result is missing": (body) => lastCall(body) >= 0 && listOf(body).splice(lastCall(body) + 1, 1).length,
  "a call is missing": (body) => lastCall(body) >= 0 && listOf(body).splice(lastCall(body), 1).length,
  "text between a call and its result": (body) => lastCall(body) >= 0 && listOf(body).splice(lastCall(body) + 1, 0, {
    role: "user", ...(body.contents ? { parts: [{ text: "hm" }] } : { content: "hm" }) }),
  "empty content": (body) => Object.assign(listOf(body)[0], body.contents ? { parts: [] } : { content: "" }),
  "an unknown role": (body) => Object.assign(listOf(body)[0], { role: "nobody" }),
  "an unknown member": (body) => Object.assign(body, { entryIds: [] }),
  "a list for a text": (body) => Object.assign(body, { model: [] }),
};

const result = { bodies: 0, kinds: {}, wrong: [], faults: 0, unseen: [] };
for (const line of readFileSync(process.argv[2], "utf8").split("\n").filter(Boolean)) {
  const { number, view } = JSON.parse(line);
  for (const one of providers) {
    const why = (() => {
      try { return wrongIn(one, one.convert(view)); } catch (error) { return [error.stack]; }
    })();
    ++result.bodies;
    result.kinds[one.type] = (result.kinds[one.type] ?? 0) + 1;
    if (why.length) result.wrong.push({ number, provider: one.type, why });
    if (why.length || number % 10) continue;
    for (const [name, put] of Object.entries(faults)) {
      const body = structuredClone(one.convert(view));
      if (!put(body)) continue;
      ++result.faults;
      if (!wrongIn(one, body).length) result.unseen.push(`${number} ${one.type}: ${name}`);
    }
  }
}
console.log(JSON.stringify(result));
