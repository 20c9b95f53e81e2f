// The default, the way of evaluation, and the rules in their order.
import { route } from '../../state/route';
import type { Fault, Policy, Rule } from './draft';
import { RuleRow } from './rule_row';

function Choice({
  name,
  value,
  values,
  allowed,
  onChange,
}: {
  name: string;
  value: string;
  values: readonly string[];
  allowed: boolean;
  onChange: (value: string) => void;
}) {
  return (
    <label class="field inline">
      <span>{name}</span>
      <select disabled={!allowed} value={value} onChange={event => onChange(event.currentTarget.value)}>
        {values.map(one => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </label>
  );
}

export function Rules({
  policy,
  faults,
  allowed,
  onChange,
}: {
  policy: Policy;
  faults: Fault[];
  allowed: boolean;
  onChange: (next: Policy) => void;
}) {
  const rules = policy.rules ?? [],
    marked = route.value.query.get('rule');
  const put = (n: number, rule: Rule | null) =>
    onChange({
      ...policy,
      rules: rule ? rules.map((old, at) => (at === n ? rule : old)) : rules.filter((_, at) => at !== n),
    });
  const move = (n: number, by: number) => {
    const next = [...rules],
      [one] = next.splice(n, 1);
    next.splice(n + by, 0, one!);
    onChange({ ...policy, rules: next });
  };
  return (
    <div>
      <p class="soft">
        May the agent send here? A session’s own setting counts first, then{' '}
        {policy.evaluation === 'deny-overrides'
          ? 'any rule that denies, then the first rule that matches'
          : 'the first rule that matches'}
        , then the default.
      </p>
      <div class="row wrap">
        <Choice
          name="Default"
          value={policy.default ?? 'allow'}
          values={['allow', 'deny']}
          allowed={allowed}
          onChange={value => onChange({ ...policy, default: value as 'allow' })}
        />
        <Choice
          name="Evaluation"
          value={policy.evaluation ?? 'first-match'}
          values={['first-match', 'deny-overrides']}
          allowed={allowed}
          onChange={value => onChange({ ...policy, evaluation: value as 'first-match' })}
        />
      </div>
      {faults.length > 0 && (
        <ul class="notice bad" role="alert">
          {faults.map(fault => (
            <li key={fault.pointer}>
              <code>{fault.pointer}</code> {fault.detail}
            </li>
          ))}
        </ul>
      )}
      <ol class="rules">
        {rules.map((rule, n) => (
          <RuleRow
            key={n}
            n={n}
            rule={rule}
            marked={marked === String(n)}
            allowed={allowed}
            last={n === rules.length - 1}
            fault={faults.some(one => one.pointer.startsWith(`/rules/${n}`))}
            onChange={next => put(n, next)}
            onMove={by => move(n, by)}
          />
        ))}
      </ol>
      {!rules.length && <p class="soft">No rules: the default decides.</p>}
      {allowed && (
        <button type="button" onClick={() => onChange({ ...policy, rules: [...rules, { match: {}, action: 'deny' }] })}>
          Add a rule
        </button>
      )}
    </div>
  );
}
