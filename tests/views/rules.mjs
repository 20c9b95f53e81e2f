// What the providers demand and their types do not say: each call is followed directly by its results, no result stands
// alone, Anthropic's roles alternate, nothing is empty. Each function returns what is wrong with a body.

const same = (a, b) => a.length === b.length && [...a].sort().join("\n") === [...b].sort().join("\n");
const isText = (text) => typeof text === "string" && text.trim() !== "";

function emptyParts(where, content) {
  if (typeof content === "string") return isText(content) ? [] : [`${where}: empty content`];
  if (!content?.length) return [`${where}: no content`];
  return content.flatMap((part, at) => "text" in part && !isText(part.text) ? [`${where}/${at}: empty text`] : []);
}

export function wrongInOpenAIChat({ messages }) {
  const wrong = messages.length ? [] : ["no messages"];
  for (let at = 0; at < messages.length; ++at) {
    const { role, content, tool_calls } = messages[at];
    if (role === "tool") wrong.push(`${at}: a result without its call`);
    if (content !== undefined || !tool_calls) wrong.push(...emptyParts(at, content));
    if (!tool_calls) continue;
    const calls = tool_calls.map((call) => call.id);
    const results = [];
    while (messages[at + 1]?.role === "tool") {
      results.push(messages[++at].tool_call_id);
      wrong.push(...emptyParts(at, messages[at].content));
    }
    if (!same(calls, results)) wrong.push(`${at}: calls ${calls}, results ${results}`);
  }
  return wrong;
}

export function wrongInOpenAIResponses({ input }) {
  const wrong = input.length ? [] : ["no input"];
  let calls = [], results = [];
  const close = (at) => {
    if (!same(calls, results)) wrong.push(`before ${at}: calls ${calls}, results ${results}`);
    calls = [], results = [];
  };
  input.forEach((item, at) => {
    if (item.type === "function_call_output") {
      results.push(item.call_id);
      wrong.push(...emptyParts(at, item.output));
      return;
    }
    if (results.length || item.type !== "function_call") close(at);
    if (item.type === "function_call") calls.push(item.call_id);
    else wrong.push(...emptyParts(at, item.content));
  });
  close(input.length);
  return wrong;
}

export function wrongInAnthropic({ messages }) {
  const wrong = messages.length ? [] : ["no messages"];
  const ids = new Set();
  let calls = [];
  messages.forEach(({ role, content }, at) => {
    if (role !== (at % 2 ? "assistant" : "user")) wrong.push(`${at}: ${role} does not alternate`);
    wrong.push(...emptyParts(at, content));
    const parts = typeof content === "string" ? [] : content;
    const isResult = (part) => part.type === "tool_result";
    const results = parts.filter(isResult);
    const answered = results.map((part) => part.tool_use_id);
    if (!parts.slice(0, results.length).every(isResult)) wrong.push(`${at}: results do not come first`);
    if (!same(calls, answered)) wrong.push(`${at}: calls ${calls}, results ${answered}`);
    for (const result of results) wrong.push(...emptyParts(`${at}: result`, result.content));
    calls = parts.filter((part) => part.type === "tool_use").map((part) => part.id);
    for (const id of calls) {
      if (ids.has(id) || !/^[A-Za-z0-9_-]+$/.test(id)) wrong.push(`${at}: id ${id}`);
      ids.add(id);
    }
  });
  if (calls.length) wrong.push(`at the end: calls ${calls} without results`);
  return wrong;
}

export function wrongInGemini({ contents }) {
  const wrong = contents.length ? [] : ["no contents"];
  let calls = [];
  contents.forEach(({ role, parts }, at) => {
    if (role !== "user" && role !== "model") wrong.push(`${at}: role ${role}`);
    wrong.push(...emptyParts(at, parts));
    for (const part of parts) if (Object.keys(part).length !== 1) wrong.push(`${at}: a part is ${Object.keys(part)}`);
    const named = (kind) => parts.filter((part) => part[kind]).map((part) => `${part[kind].id} ${part[kind].name}`);
    const results = named("functionResponse");
    const alone = !results.length || results.length === parts.length;
    if (!same(calls, results) || !alone) wrong.push(`${at}: calls ${calls}, results ${results}`);
    calls = named("functionCall");
  });
  if (calls.length) wrong.push(`at the end: calls ${calls} without results`);
  return wrong;
}
