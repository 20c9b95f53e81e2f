// Tokens: who may do what where; made, rotated and revoked here.
import { useState } from 'preact/hooks';
import { ask, type Schemas } from '../../api/client';
import { who } from '../../state/who';
import { Copy } from '../../ui/basics';
import { confirm } from '../../ui/dialog';
import { Loading, Trouble } from '../../ui/states';
import { doing } from '../../ui/toast';
import { useAsk } from '../../ui/use';
import { NewToken } from './new_token';
import { TokenRow, type Token } from './token_row';

export function Tokens() {
  const { data, error, again } = useAsk<{ data: Token[] }>('/v1/admin/tokens', event =>
    event.type.startsWith('token.'),
  );
  const [made, setMade] = useState<Schemas['NewTokenReply'] | null>(null);
  const rotate = async (token: Token) => {
    if (
      await confirm(
        'Rotate the token',
        <ul>
          <li>A new token with the same rights is made and shown once.</li>
          <li>The old one stays good for another hour.</li>
        </ul>,
        'Rotate',
      )
    )
      await doing('Rotated', async () => {
        setMade(await ask(`/v1/admin/tokens/${encodeURIComponent(token.id)}/rotate`, { method: 'POST', body: {} }));
        again();
      });
  };
  const revoke = async (token: Token) => {
    const own = who.value?.id === token.id;
    if (
      await confirm(
        'Revoke the token',
        <ul>
          <li>Whoever uses it is refused at once; its streams end within a second.</li>
          {own && (
            <li>
              <strong>It is the one that you are signed in with.</strong>
            </li>
          )}
        </ul>,
        'Revoke',
        true,
      )
    )
      await doing('Revoked', () => ask(`/v1/admin/tokens/${encodeURIComponent(token.id)}`, { method: 'DELETE' })).then(
        again,
      );
  };
  if (error) return <Trouble error={error} again={again} />;
  if (!data) return <Loading />;
  return (
    <>
      {made && (
        <section class="new-token" aria-label="The new token">
          <p>
            <strong>The new token. It is shown this once.</strong>
          </p>
          <code class="block">{made.token}</code>
          <p class="row">
            <Copy value={() => made.token}>Copy</Copy>
            <button type="button" onClick={() => setMade(null)}>
              I have it
            </button>
          </p>
        </section>
      )}
      <NewToken
        onMade={token => {
          setMade(token);
          again();
        }}
      />
      <div class="table-wrap" tabIndex={0} role="region" aria-label="Tokens">
        <table>
          <thead>
            <tr>
              {['Id', 'Role', 'Sees', 'Note', 'Last used', 'Ends', ''].map(name => (
                <th key={name} scope="col">
                  {name || <span class="sr-only">Actions</span>}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {data.data.map(token => (
              <TokenRow
                key={token.id}
                token={token}
                onRotate={() => void rotate(token)}
                onRevoke={() => void revoke(token)}
              />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
