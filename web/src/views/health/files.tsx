// What one does by hand about the files: look through them for faults, and write what the journal has.
import { Dialog } from '../../ui/dialog';
import { Findings, useDoctor } from '../admin/doctor';
import { writeFiles } from '../admin/maintenance';

export function FileButtons() {
  const { report, busy, examine, forget } = useDoctor();
  return (
    <>
      <button type="button" disabled={busy} onClick={() => void examine()}>
        {busy ? 'Examining…' : 'Examine files'}
      </button>
      <button type="button" onClick={() => void writeFiles()}>
        Write files now
      </button>
      {report && (
        <Dialog title="Files examined" look="wide" onClose={forget}>
          <Findings report={report} />
        </Dialog>
      )}
    </>
  );
}
