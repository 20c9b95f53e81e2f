#!/usr/bin/env node
// A runner: takes what people said, asks a model, and brings its answer back. Node 18 or later, no packages.
//
//   SESSIOND_URL=http://127.0.0.1:7433 SESSIOND_TOKEN=… OPENAI_BASE_URL=https://api.openai.com/v1 OPENAI_API_KEY=… \
//     MODEL=gpt-5-mini ./runner.mjs main
//
// The token has the role runner. Start as many runners as you like: each run goes to one of them. One that dies loses
// its lease, and another one begins anew.
import {setTimeout as sleep} from 'node:timers/promises';

const {SESSIOND_URL = 'http://127.0.0.1:7433', SESSIOND_TOKEN, OPENAI_API_KEY = ''} = process.env;
const {OPENAI_BASE_URL = 'https://api.openai.com/v1', MODEL = 'gpt-5-mini', LEASE_MS = '30000'} = process.env;
const agent = process.argv[2] ?? 'main';

async function ask(method, path, body) {
  const reply = await fetch(SESSIOND_URL + path, {
    method,
    headers: {Authorization: `Bearer ${SESSIOND_TOKEN}`, 'Content-Type': 'application/json'},
    body: body && JSON.stringify(body),
  });
  if (reply.status === 204) return null;
  const answer = await reply.json();
  if (!reply.ok) throw new Error(`${reply.status} ${answer.code}: ${answer.detail}`);
  return answer;
}

// A run that we hold. Every call renews its lease.
class Run {
  constructor(run) {
    this.run = run;
    this.session = `/v1/agents/${agent}/sessions/${encodeURIComponent(run.key)}`;
    this.path = `${this.session}/runs/${encodeURIComponent(run.runId)}`;
    this.aborted = false;
    this.calls = 0;
    this.last = Promise.resolve();
    this.timer = setInterval(() => this.tell(), Number(LEASE_MS) / 3);
  }

  // Tells what happens, one call after another. n lets the daemon know a call that comes again after a lost reply.
  tell(...events) {
    return (this.last = this.last.then(async () => {
      try {
        const body = {fence: this.run.lease.fence, n: this.calls + 1, events};
        const heard = await ask('POST', `${this.path}/events`, body);
        this.calls += 1;
        this.aborted ||= heard.abort;
      } catch (error) {
        this.aborted = true; // the lease may be lost: say no more
        console.error(`run ${this.run.runId}: ${error.message}`);
      }
    }));
  }

  async finish(status, text, error) {
    clearInterval(this.timer);
    await this.last;
    const entries = text ? [{role: 'assistant', text}] : undefined;
    return ask('POST', `${this.path}/finish`, {fence: this.run.lease.fence, status, entries, error});
  }

  // The conversation as the model is to see it: the summary of what came before, then what fits into its window.
  async messages() {
    const topic = this.run.topic === null ? '' : `&topic=${encodeURIComponent(this.run.topic)}`;
    const view = await ask('GET', `${this.session}/messages?view=llm${topic}`);
    return view.data
      .filter((row) => ['system', 'user', 'assistant'].includes(row.role))
      .map((row) => ({role: row.role, content: textOf(row.content)}));
  }
}

const textOf = (content) =>
  typeof content === 'string'
    ? content
    : content.filter((part) => part.type === 'text').map((part) => part.text).join('\n');

// Asks the model, and passes on what it says while it says it.
async function answer(run) {
  const reply = await fetch(`${OPENAI_BASE_URL}/chat/completions`, {
    method: 'POST',
    headers: {Authorization: `Bearer ${OPENAI_API_KEY}`, 'Content-Type': 'application/json'},
    body: JSON.stringify({model: run.run.model ?? MODEL, messages: await run.messages(), stream: true}),
  });
  if (!reply.ok) throw new Error(`the model's server: ${reply.status} ${await reply.text()}`);
  let text = '';
  let rest = '';
  for await (const chunk of reply.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data: ') || line.trim() === 'data: [DONE]') continue;
      const said = JSON.parse(line.slice(6)).choices.map((choice) => choice.delta.content ?? '').join('');
      text += said;
      if (said) await run.tell({type: 'text.delta', text: said});
      if (run.aborted) return text;
    }
  }
  return text;
}

async function work() {
  const claimed = await ask('POST', `/v1/agents/${agent}/runs/claim`, {waitMs: 25_000, leaseMs: Number(LEASE_MS)});
  if (!claimed) return;
  const run = new Run(claimed);
  let text;
  try {
    await run.tell({type: 'step.started', step: 1});
    text = await answer(run);
    await run.tell({type: 'step.finished', step: 1});
  } catch (error) {
    await run.finish('failed', '', {code: 'provider_error', message: error.message});
    return;
  }
  await run.finish(run.aborted ? 'interrupted' : 'done', text);
}

for (;;) {
  try {
    await work();
  } catch (error) {
    console.error(`${error.message}; trying again`);
    await sleep(1000);
  }
}
