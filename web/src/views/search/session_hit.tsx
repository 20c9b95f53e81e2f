// A conversation whose name, channel or agent has the words.
import type { Session } from '../../api/client';
import { whereOf } from '../../state/find_sessions';
import { titleOf } from '../../state/sessions';
import { Age, Badge } from '../../ui/basics';
import { Icon } from '../../ui/icons';
import { kindOf } from '../session_row';
import { Row, type RowProps } from './row';

export const SessionHit = ({ session, ...row }: RowProps & { session: Session }) => (
  <Row {...row}>
    <span class="row">
      <Icon name={kindOf(session)} size={14} />
      <strong class="cut" dir="auto">
        {titleOf(session)}
      </strong>
      <span class="cut grow soft">{whereOf(session)}</span>
      {!!session.archivedAt && <Badge>archived</Badge>}
      <Age at={session.updatedAt} />
    </span>
  </Row>
);
