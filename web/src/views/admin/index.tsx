// For admins and operators: tokens, maintenance, the configuration in force. The part stands in the address.
import { useEffect } from 'preact/hooks';
import { hrefOf, route } from '../../state/route';
import { may, seesAll } from '../../state/who';
import { Head } from '../../ui/basics';
import { Empty } from '../../ui/states';
import { Configuration } from './configuration';
import { Hooks } from './hooks';
import { Maintenance } from './maintenance';
import { Tokens } from './tokens';

const PARTS = [
  ['tokens', 'Tokens', 'tokens', Tokens],
  ['hooks', 'Hooks', 'maintenance', Hooks],
  ['maintenance', 'Maintenance', 'maintenance', Maintenance],
  ['configuration', 'Configuration', 'maintenance', Configuration],
] as const;

export function Admin() {
  const allowed = PARTS.filter(([, , permission]) => may(permission));
  const [id, , , Part] = allowed.find(([name]) => name === route.value.parts[0]) ?? allowed[0] ?? [];
  useEffect(() => {
    document.title = 'Settings · sessiond';
  }, []);
  if (!Part || !seesAll())
    return (
      <section class="view" aria-label="Settings">
        <Head title="Settings" />
        <Empty title="Not for this token" icon="admin">
          The settings need a token of role admin or operator without limits.
        </Empty>
      </section>
    );
  return (
    <section class="view" aria-label="Settings">
      <Head title="Settings" />
      <nav class="tabs" aria-label="Parts of the settings">
        {allowed.map(([name, title]) => (
          <a key={name} href={hrefOf('admin', [name])} aria-current={name === id ? 'page' : undefined}>
            {title}
          </a>
        ))}
      </nav>
      <div class="scroll pad" tabIndex={0} role="region" aria-label="Administration">
        <Part />
      </div>
    </section>
  );
}
