#!/usr/bin/env node
// A runner: takes what people said, asks a model, and brings its answer back. Node 18 or later, no packages.
//
//   SESSIOND_URL=http://127.0.0.1:7433 SESSIOND_TOKEN=… OPENAI_BASE_URL=https://api.openai.com/v1 OPENAI_API_KEY=… \
//     MODEL=gpt-5-mini ./runner.mjs main
//
// The token has the role runner. Start as many runners as you like: each run goes to one of them. One that dies loses
// its lease, and another one begins anew. Any server that speaks OpenAI's chat completions will do.
import {setTimeout as sleep} from 'node:timers/promises';

const {SESSIOND_URL = 'http://127.0.0.1:7433', SESSIOND_TOKEN, OPENAI_API_KEY = ''} = process.env;
const {OPENAI_BASE_URL = 'https://api.openai.com/v1', MODEL = 'gpt-5-mini', LEASE_MS = '30000'} = process.env;
const agent = process.argv[2] ?? 'main';

class Refused extends Error {}

// One call of the daemon. While the daemon is away or busy the call is repeated, however long that takes; every call
// of this program may come twice. A refusal throws.
async function ask(method, path, body) {
  for (let wait = 250; ; wait = Math.min(2 * wait, 5000)) {
    try {
      const reply = await fetch(SESSIOND_URL + path, {
        method,
        headers: {Authorization: `Bearer ${SESSIOND_TOKEN}`, 'Content-Type': 'application/json'},
        body: body && JSON.stringify(body),
        signal: AbortSignal.timeout(60_000),
      });
      if (reply.status === 204) return null;
      const answer = await reply.json();
      if (reply.ok) return answer;
      const refused = Object.assign(new Refused(`${answer.code}: ${answer.detail}`), {code: answer.code});
      if (reply.status < 500 && reply.status !== 429) throw refused;
      console.error(`the daemon: ${refused.message}; trying again`);
    } catch (error) {
      if (error instanceof Refused) throw error;
      console.error(`the daemon: ${error.cause?.code ?? error.message}; trying again`);
    }
    await sleep(wait);
  }
}

// A run that we hold. Every call renews its lease.
class Run {
  constructor(run) {
    this.run = run;
    this.session = `/v1/agents/${agent}/sessions/${encodeURIComponent(run.key)}`;
    this.path = `${this.session}/runs/${encodeURIComponent(run.runId)}`;
    this.stop = new AbortController(); // a person said so, or the lease is lost
    this.lost = null;
    this.calls = 0;
    this.last = Promise.resolve();
    this.timer = setInterval(() => this.tell(), Number(LEASE_MS) / 3);
  }

  // Tells what happens, one call after another. n lets the daemon know a call that comes again after a lost reply.
  tell(...events) {
    return (this.last = this.last.then(async () => {
      if (this.lost) return;
      try {
        const body = {fence: this.run.lease.fence, n: this.calls + 1, events};
        const heard = await ask('POST', `${this.path}/events`, body);
        this.calls += 1;
        if (heard.abort) this.stop.abort();
      } catch (error) {
        this.lost = error; // somebody else has the run by now, or it has ended
        this.stop.abort();
      }
    }));
  }

  // A finish that comes again after a lost reply gets the first one's reply.
  async finish(status, text, error) {
    clearInterval(this.timer);
    await this.last;
    if (this.lost) throw this.lost;
    const entries = text ? [{role: 'assistant', text}] : undefined;
    return ask('POST', `${this.path}/finish`, {fence: this.run.lease.fence, status, entries, error});
  }

  // The conversation as this run's model is to see it: what came before, and what it is asked, but nothing that came later.
  async messages() {
    const topic = this.run.topic === null ? '' : `&topic=${encodeURIComponent(this.run.topic)}`;
    const view = await ask('GET', `${this.session}/messages?view=llm&run=${this.run.runId}${topic}`);
    return view.data
      .filter((row) => ['system', 'user', 'assistant'].includes(row.role))
      .map((row) => ({role: row.role, content: textOf(row.content)}));
  }
}

const textOf = (content) =>
  typeof content === 'string'
    ? content
    : content.filter((part) => part.type === 'text').map((part) => part.text).join('\n');

// Asks the model; twice more when its server is away or busy. Stopped meanwhile: nothing.
async function complete(run, body) {
  const headers = {Authorization: `Bearer ${OPENAI_API_KEY}`, 'Content-Type': 'application/json'};
  const request = {method: 'POST', headers, body: JSON.stringify(body), signal: run.stop.signal};
  for (let tries = 1; ; tries += 1) {
    const reply = await fetch(`${OPENAI_BASE_URL}/chat/completions`, request).catch((error) => error);
    if (reply.ok || run.stop.signal.aborted) return reply;
    const what = reply.status ? `${reply.status} ${await reply.text()}` : (reply.cause?.code ?? reply.message);
    const passing = !reply.status || reply.status >= 500 || reply.status === 429;
    if (tries === 3 || !passing) throw new Error(`the model's server: ${what}`);
    await sleep(500 * tries);
  }
}

// Passes on what the model says while it says it. Stopped, it keeps what was said so far.
async function answer(run) {
  let text = '';
  let rest = '';
  const utf8 = new TextDecoder();
  const stopped = new Promise((resolve) => run.stop.signal.addEventListener('abort', () => resolve({done: true})));
  const reply = await complete(run, {model: run.run.model ?? MODEL, messages: await run.messages(), stream: true});
  const reader = reply.body?.getReader();
  while (!run.stop.signal.aborted) {
    const {done, value} = await Promise.race([reader.read(), stopped]);
    if (done) break;
    const lines = (rest + utf8.decode(value, {stream: true})).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith('data: ') || line.trim() === 'data: [DONE]') continue;
      const {choices = [], error} = JSON.parse(line.slice(6));
      if (error) throw new Error(`the model's server: ${error.message}`);
      const said = choices.map((choice) => choice.delta.content ?? '').join('');
      text += said;
      if (said) await run.tell({type: 'text.delta', text: said});
    }
  }
  return text;
}

for (;;) {
  let run;
  try {
    const claimed = await ask('POST', `/v1/agents/${agent}/runs/claim`, {waitMs: 25_000, leaseMs: Number(LEASE_MS)});
    if (!claimed) continue;
    run = new Run(claimed);
    await run.tell({type: 'step.started', step: 1});
    const text = await answer(run);
    await run.tell({type: 'step.finished', step: 1});
    await run.finish(run.stop.signal.aborted ? 'interrupted' : 'done', text);
  } catch (error) {
    console.error(`${run ? `run ${run.run.runId}` : 'no run'}: ${error.message}`);
    const code = error instanceof Refused ? error.code?.replace('view_too_large', 'context_length') : 'provider_error';
    await (run ? run.finish('failed', '', {code, message: error.message}).catch(() => {}) : sleep(1000));
  }
}
