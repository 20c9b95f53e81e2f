// Reads what is on its way: open runs and deliveries, with what the runners tell of their work meanwhile.
import { useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { withQuery, type Delivery } from '../../api/client';
import { listen } from '../../live/hub';
import { itemsOf, type Item, type OpenRun, type Stage } from '../../state/stages';
import { approvals, failed } from '../../state/work';
import { text } from '../../ui/format';
import { useAsk } from '../../ui/use';

export interface Doing {
  step: number;
  tool: string;
}
const OPENS_OR_ENDS = /^run\.(queued|started|aborting|finished)$|^message\.held$|^session\.(takeover|handback)$/;
const MOST = 100; // deliveries of a status

export interface Work {
  stages: Record<Stage, Item[]>;
  doing: ReadonlyMap<string, Doing>; // by runId
  isCut: (stage: Stage) => boolean; // there are more than are shown
  error: unknown;
  loading: boolean;
  again: () => void;
}

export function useWork(): Work {
  const doing = useSignal<ReadonlyMap<string, Doing>>(new Map());
  const runs = useAsk<{ data: OpenRun[] }>('/v1/runs', event => OPENS_OR_ENDS.test(event.type));
  const deliveries = (status: Delivery['status']) =>
    useAsk<{ data: Delivery[] }>(
      withQuery('/v1/deliveries', { status, limit: MOST }),
      event => event.type.startsWith('delivery.') || (event.type === 'message.appended' && !!event.data.delivery),
    );
  const pending = deliveries('pending'),
    leased = deliveries('leased'),
    sent = deliveries('sent');
  const asked = [runs, pending, leased, sent],
    isFull = (one: typeof sent) => one.data?.data.length === MOST;
  const isCut = isFull(pending) || isFull(leased);
  useEffect(
    () =>
      listen(events => {
        let next: Map<string, Doing> | null = null;
        for (const { type, data } of events) {
          if (!/^(step|tool)\.(started|finished)$|^run\.finished$/.test(type)) continue;
          next ??= new Map(doing.value);
          const runId = text(data.runId),
            old = next.get(runId) ?? { step: 0, tool: '' };
          if (type === 'run.finished') next.delete(runId);
          else if (type === 'step.started') next.set(runId, { step: Number(data.step), tool: '' });
          else next.set(runId, { ...old, tool: type === 'tool.started' ? text(data.tool) : '' });
        }
        if (next) doing.value = next;
      }),
    [],
  );
  const midnight = new Date().setHours(0, 0, 0, 0);
  const stages = useMemo(
    () =>
      itemsOf(
        runs.data?.data ?? [],
        approvals.value,
        [
          ...(pending.data?.data ?? []),
          ...(leased.data?.data ?? []),
          ...(sent.data?.data ?? []).filter(one => one.createdAt >= midnight),
          ...failed.value,
        ],
        isCut,
      ),
    [runs.data, approvals.value, pending.data, leased.data, sent.data, failed.value, midnight, isCut],
  );
  return {
    stages,
    doing: doing.value,
    isCut: stage => (stage === 'sent' && stages.sent.length === MOST) || (stage === 'sending' && isCut),
    error: asked.find(one => one.error)?.error ?? null,
    loading: asked.some(one => one.loading),
    again: () => asked.forEach(one => one.again()),
  };
}
