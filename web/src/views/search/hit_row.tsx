// A hit: who said it and where, and the words about it.
import { isArchived, told, type Hit } from './hits';
import { Age, Badge } from '../../ui/basics';
import { Icon } from '../../ui/icons';
import { Marked } from './marked';
import { Row, type RowProps } from './row';

export function HitRow({ hit, ...row }: RowProps & { hit: Hit }) {
  const { who, where } = told(hit),
    isTool = hit.role === 'tool';
  return (
    <Row {...row}>
      <span class="row">
        {isTool && <Icon name="tool" size={14} />}
        <strong class={`cut ${isTool ? 'mono' : ''}`} dir="auto">
          {who}
        </strong>
        <span class="cut grow soft" dir="auto">
          {where}
        </span>
        {isArchived(hit) && <Badge>archived</Badge>}
        <Age at={hit.timestamp} />
      </span>
      <p class={isTool ? 'mono' : ''} dir="auto">
        <Marked text={hit.snippet} ranges={hit.ranges} />
      </p>
    </Row>
  );
}
