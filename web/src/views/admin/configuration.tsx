// The configuration in force, as the daemon tells it.
import { Copy, Json } from '../../ui/basics';
import { json } from '../../ui/format';
import { Loading, Trouble } from '../../ui/states';
import { useAsk } from '../../ui/use';

export function Configuration() {
  const { data, error, again } = useAsk<Record<string, unknown>>('/v1/admin/config');
  if (error) return <Trouble error={error} again={again} />;
  if (!data) return <Loading />;
  return (
    <>
      <p class="row soft">
        <span class="grow">
          What the daemon was started with, or took since by <code>kill -HUP</code>.
        </span>
        <Copy value={() => json(data)}>Copy</Copy>
      </p>
      <Json value={data} label="The configuration" />
    </>
  );
}
