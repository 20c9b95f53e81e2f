// What the agent of a conversation is doing now, as the events of its run tell it.
import type { LiveEvent, Run, Schemas } from '../api/client';
import { text } from '../ui/format';

export interface Running {
  runId: string;
  text: string;
  reasoning: string;
  tools: { callId: string; tool: string; args: unknown; since: number }[];
  step: number;
  since: number;
  seen: number; // when its runner said something last
  replyTo?: Schemas['Run']['replyTo']; // where its answer is sent; absent: nowhere
}

const begun = (runId: string, since: number): Running => ({
  runId,
  text: '',
  reasoning: '',
  tools: [],
  step: 0,
  since,
  seen: since,
});
export const runningOf = (run: Run): Running => ({
  ...begun(run.runId, run.startedAt ?? Date.now()),
  step: run.steps,
  seen: Date.now(),
  replyTo: run.replyTo,
});

// What it does after an event. Null: nothing.
export function runningAfter(now: Running | null, { type, data, time }: LiveEvent): Running | null {
  const runId = text(data.runId);
  if (type === 'run.started')
    return { ...begun(runId, time), replyTo: (data.replyTo as Run['replyTo'] | null) ?? undefined };
  if (type === 'run.finished') return null;
  if (!now) return type === 'text.delta' ? { ...begun(runId, time), text: text(data.text) } : null;
  const seen = time || Date.now();
  switch (type) {
    case 'text.delta':
      return { ...now, seen, text: now.text + text(data.text) };
    case 'reasoning.delta':
      return { ...now, seen, reasoning: now.reasoning + text(data.text) };
    case 'run.progress':
      return now.text === '' ? { ...now, seen, text: text(data.text) } : now;
    case 'step.started':
      return { ...now, seen, step: Number(data.step) };
    case 'tool.started':
      return {
        ...now,
        seen,
        tools: [...now.tools, { callId: text(data.callId), tool: text(data.tool), args: data.args, since: time }],
      };
    case 'tool.finished':
      return { ...now, seen, tools: now.tools.filter(tool => tool.callId !== text(data.callId)) };
    default:
      return now;
  }
}
