// A token as a row: what it may do, where, and since when nobody used it.
import type { Schemas } from '../../api/client';
import { who } from '../../state/who';
import { Age, Badge } from '../../ui/basics';
import { moment } from '../../ui/format';

export type Token = Schemas['TokenInfo'];

const limitsOf = (token: Token) =>
  [
    ...token.agents.map(agent => `agent ${agent}`),
    token.keyPrefix && `keys ${token.keyPrefix}…`,
    token.channel && `channel ${token.channel}`,
    token.key,
  ]
    .filter(Boolean)
    .join(', ');

export function TokenRow({ token, onRotate, onRevoke }: { token: Token; onRotate: () => void; onRevoke: () => void }) {
  const own = who.value?.id === token.id;
  return (
    <tr>
      <td class="mono">
        {token.id}
        {own && (
          <>
            {' '}
            <Badge tone="info">yours</Badge>
          </>
        )}
      </td>
      <td>
        <Badge>{token.role}</Badge>
        {token.permissions?.map(one => (
          <Badge key={one}>{one}</Badge>
        ))}
      </td>
      <td>{limitsOf(token) || <span class="soft">everything</span>}</td>
      <td dir="auto">{token.note}</td>
      <td>{token.lastUsed ? <Age at={token.lastUsed} /> : <span class="soft">never</span>}</td>
      <td>{token.expiresAt ? moment(token.expiresAt) : <span class="soft">never</span>}</td>
      <td>
        <span class="row">
          <button type="button" class="small" aria-label={`Rotate token ${token.id}`} onClick={onRotate}>
            Rotate…
          </button>
          <button type="button" class="small danger" aria-label={`Revoke token ${token.id}`} onClick={onRevoke}>
            Revoke…
          </button>
        </span>
      </td>
    </tr>
  );
}
