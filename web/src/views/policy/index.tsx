// The rules of sending: edited with validation, tried, and compared with what was sent.
import { useEffect } from 'preact/hooks';
import { may } from '../../state/who';
import { Badge, Head } from '../../ui/basics';
import { Loading, Trouble } from '../../ui/states';
import { useDraft } from './draft';
import { Rules } from './rules';
import { TryIt } from './try_it';
import { WhatIf } from './what_if';

export function PolicyView() {
  const { policy, draft, faults, error, read, change, save } = useDraft(),
    allowed = may('policy');
  useEffect(() => {
    document.title = 'Policy · sessiond';
  }, []);
  if (error || !policy)
    return (
      <section class="view">
        <Head title="Policy" />
        {error ? <Trouble error={error} again={() => void read()} /> : <Loading />}
      </section>
    );
  return (
    <section class="view" aria-label="Policy">
      <Head title="Policy">
        {draft && (
          <>
            <Badge tone="warn">not saved</Badge>
            <button type="button" onClick={() => change(null)}>
              Discard
            </button>
          </>
        )}
        {allowed && (
          <button type="button" class="primary" disabled={!draft} onClick={() => void save()}>
            Save…
          </button>
        )}
      </Head>
      <div class="scroll pad policy" tabIndex={0} role="region" aria-label="Rules">
        <div class="columns">
          <Rules policy={policy} faults={faults} allowed={allowed} onChange={change} />
          <div>
            <TryIt policy={policy} />
            <WhatIf policy={draft} />
          </div>
        </div>
      </div>
    </section>
  );
}
