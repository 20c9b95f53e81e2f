// The send policy that is kept, and the draft that one edits beside it until it is saved or discarded.
import { useEffect, useState } from 'preact/hooks';
import { ask, askRaw, Refusal, type Schemas } from '../../api/client';
import { confirm } from '../../ui/dialog';
import { toast } from '../../ui/toast';

export type Policy = Schemas['SendPolicy'];
export type Rule = NonNullable<Policy['rules']>[number];
export interface Fault {
  pointer: string;
  detail: string;
}

const askToReplace = () =>
  confirm(
    'Replace the send policy',
    <p>
      It holds for the next message that is sent, on every agent and channel. Messages that wait as deliveries were
      decided on already.
    </p>,
    'Replace',
  );

export function useDraft() {
  const [kept, setKept] = useState<{ policy: Policy; etag: string } | null>(null),
    [draft, setDraft] = useState<Policy | null>(null),
    [error, setError] = useState<unknown>(null),
    [faults, setFaults] = useState<Fault[]>([]);
  const read = () =>
    askRaw('/v1/policy/send').then(async reply => {
      const body = (await reply.json()) as Policy & { policy?: Policy; asOf?: string };
      const policy = body.policy ?? { default: body.default, evaluation: body.evaluation, rules: body.rules };
      setKept({ policy, etag: reply.headers.get('ETag') ?? '' });
      setDraft(null);
      setError(null);
    }, setError);
  useEffect(() => {
    void read();
  }, []);
  const change = (next: Policy | null) => {
    setDraft(next);
    setFaults([]);
  };
  const save = async () => {
    if (!kept || !draft || !(await askToReplace())) return;
    try {
      await ask('/v1/policy/send', { method: 'PUT', body: draft, headers: { 'If-Match': kept.etag } });
      toast('Replaced');
      await read();
    } catch (refusal) {
      if (refusal instanceof Refusal && refusal.status === 422)
        setFaults((refusal.body.errors ?? [{ pointer: '', detail: refusal.message }]) as Fault[]);
      else if (refusal instanceof Refusal && refusal.status === 412)
        toast('Somebody else replaced the policy meanwhile. Yours is kept here; discard it to see theirs.', 'bad');
      else toast((refusal as Error).message, 'bad');
    }
  };
  return { policy: draft ?? kept?.policy ?? null, draft, faults, error, read, change, save };
}
