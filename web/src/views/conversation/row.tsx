// A row of a conversation: a message, a result without its call, a day, or what is no message.
import type { Delivery } from '../../api/client';
import { ApprovalLine } from './approval_line';
import type { Item } from './items';
import { Mark } from './mark';
import { MessageView } from './message';
import { LooseResult } from './tool_call';

export function Row({
  item,
  ...shown
}: {
  item: Item;
  agent: string;
  delivery?: Delivery;
  onRaw?: (seq: number, id: string) => void;
  marked: boolean;
}) {
  if (item.kind === 'day')
    return (
      <div class="day" role="separator">
        <span>{item.label}</span>
      </div>
    );
  if (item.kind === 'approval') return <ApprovalLine approval={item.approval} />;
  if (item.kind === 'mark') return <Mark message={item.message} />;
  if (item.kind === 'message') return <MessageView item={item} {...shown} />;
  return (
    <div class={`message tool cont ${shown.marked ? 'marked' : ''}`}>
      <div class="body">
        {item.results.map((result, n) => (
          <LooseResult key={n} result={result} />
        ))}
      </div>
    </div>
  );
}
