// The work of an agent in one conversation, kept up to date by the events of its run.
import type { LiveEvent, Run, Schemas } from '../api/client';
import { daemonNow, text } from '../ui/format';

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
  ...begun(run.runId, run.startedAt ?? daemonNow()),
  step: run.steps,
  seen: daemonNow(),
  replyTo: run.replyTo,
});

// Durations of tools, by the id of the call. The page knows those whose end it has seen; transcripts do not have them.
const toolTimes = new Map<string, { ms: number; until: number }>();
const SAME_MS = 60_000; // the same id may come again in another run

// `at`: when its result was stored.
export function timeOfTool(callId: string, at: number): number | undefined {
  const found = toolTimes.get(callId);
  return found && Math.abs(at - found.until) < SAME_MS ? found.ms : undefined;
}
const MOST_TIMES = 5000;

function noteTime(tool: Running['tools'][number] | undefined, until: number) {
  if (!tool || until < tool.since) return;
  if (toolTimes.size >= MOST_TIMES) toolTimes.clear();
  toolTimes.set(tool.callId, { ms: until - tool.since, until });
}

// Returns what the agent does after an event. Null: it does nothing.
export function runningAfter(now: Running | null, { type, data, time }: LiveEvent): Running | null {
  const runId = text(data.runId);
  if (type === 'run.started')
    return { ...begun(runId, time), replyTo: (data.replyTo as Run['replyTo'] | null) ?? undefined };
  if (type === 'run.finished') return now && now.runId !== runId ? now : null; // else a waiting run has ended
  if (!now) return type === 'text.delta' ? { ...begun(runId, time), text: text(data.text) } : null;
  const seen = time || daemonNow();
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
      noteTime(
        now.tools.find(tool => tool.callId === text(data.callId)),
        time,
      );
      return { ...now, seen, tools: now.tools.filter(tool => tool.callId !== text(data.callId)) };
    default:
      return now;
  }
}
