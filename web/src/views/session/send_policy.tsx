// The session's own send policy, and what it comes to.
import { ask, pathOf, type Place, type Schemas } from '../../api/client';
import { hrefOf } from '../../state/route';
import { may } from '../../state/who';
import { Badge } from '../../ui/basics';
import { Loading, Trouble } from '../../ui/states';
import { doing } from '../../ui/toast';
import { useAsk } from '../../ui/use';

export function SendPolicyForm({ place }: { place: Place }) {
  const { data, error, again } = useAsk<Schemas['SessionPolicy']>(
    pathOf(place, '/send-policy'),
    event => event.type === 'policy.changed' || (event.key === place.key && event.type === 'session.updated'),
  );
  if (error) return <Trouble error={error} again={again} />;
  if (!data) return <Loading lines={1} />;
  const set = (action: string) =>
    doing('Set', () => ask(pathOf(place, '/send-policy'), { method: 'PUT', body: { action } })).then(again);
  const { effective } = data;
  return (
    <div class="row wrap">
      <div class="segments" role="group" aria-label="Send policy of this session">
        {['inherit', 'allow', 'deny'].map(one => (
          <button
            key={one}
            type="button"
            disabled={!may('write')}
            aria-pressed={data.action === one}
            onClick={() => void set(one)}
          >
            {one}
          </button>
        ))}
      </div>
      <span class="soft">comes to</span>
      <Badge tone={effective.action === 'allow' ? 'good' : 'bad'}>{effective.action}</Badge>
      <span class="soft">
        by{' '}
        {effective.source === 'rule' ? (
          <a href={hrefOf('policy', [], { rule: effective.rule })}>rule {Number(effective.rule) + 1}</a>
        ) : effective.source === 'session' ? (
          'this setting'
        ) : effective.source === 'default' ? (
          'the default'
        ) : (
          'no rule'
        )}
      </span>
    </div>
  );
}
