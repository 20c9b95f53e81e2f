// The line of a message as it stands in the transcript, and a link to it.
import { pathOf, withQuery, type Schemas } from '../../api/client';
import type { Conversation } from '../../state/conversation';
import { sessionHref } from '../../state/route';
import { Copy, Json } from '../../ui/basics';
import { Dialog } from '../../ui/dialog';
import { Loading, Trouble } from '../../ui/states';
import { useAsk } from '../../ui/use';

export function RawLine({
  conversation,
  id,
  seq,
  onClose,
}: {
  conversation: Conversation;
  id: string;
  seq: number;
  onClose: () => void;
}) {
  // The daemon gives raw lines of what is current; of an archive the entry is shown as the page has it.
  const kept = conversation.archive ? conversation.messages.value.find(message => message.id === id) : null;
  const path = conversation.archive
    ? null
    : withQuery(pathOf(conversation.place, '/messages/' + encodeURIComponent(id)), {
        view: 'raw',
        topic: conversation.topic,
      });
  const { data, error } = useAsk<Schemas['RawLine']>(path);
  const line = kept ?? data?.line ?? data;
  const link =
    location.origin + '/' + sessionHref(conversation.place, undefined, { topic: conversation.topic, at: seq });
  return (
    <Dialog title={`Line ${seq} of the transcript`} onClose={onClose} look="wide">
      <p class="soft mono">{id}</p>
      {error ? <Trouble error={error} /> : line ? <Json value={line} label="The raw line" /> : <Loading />}
      <footer>
        <Copy value={() => link}>Copy link</Copy>
        <Copy value={() => JSON.stringify(line)}>Copy JSON</Copy>
      </footer>
    </Dialog>
  );
}
