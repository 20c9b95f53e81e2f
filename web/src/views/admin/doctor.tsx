// The doctor: what of the state directory is at fault, and what to do about it.
import { useState } from 'preact/hooks';
import { ask, type Schemas } from '../../api/client';
import { Badge } from '../../ui/basics';
import { doing } from '../../ui/toast';

type Report = Schemas['DoctorReport'];

const LEVELS = { ok: 'good', warning: 'warn', error: 'bad' } as const;

// Examines on demand; keeps what was found.
export function useDoctor() {
  const [report, setReport] = useState<Report | null>(null),
    [busy, setBusy] = useState(false);
  const examine = async () => {
    setBusy(true);
    await doing('', async () => setReport(await ask('/v1/admin/doctor', { method: 'POST', body: {} })));
    setBusy(false);
  };
  return { report, busy, examine, forget: () => setReport(null) };
}

export const Findings = ({ report }: { report: Report }) => (
  <ul class="findings" aria-live="polite">
    {report.findings.map((one, n) => (
      <li key={n}>
        <Badge tone={LEVELS[one.level]}>{one.check}</Badge> {one.level !== 'ok' && <b>{one.level}: </b>}
        {one.detail} <span class="soft mono">{one.path}</span>
        {one.advice && <p class="soft">{one.advice}</p>}
      </li>
    ))}
  </ul>
);

export function Doctor() {
  const { report, busy, examine } = useDoctor();
  return (
    <section class="card" aria-label="Doctor">
      <header>
        <h2>Doctor</h2>
        <span class="spacer" />
        {report && <Badge tone={LEVELS[report.status]}>{report.status}</Badge>}
        <button type="button" disabled={busy} onClick={() => void examine()}>
          {busy ? 'Examining…' : 'Examine'}
        </button>
      </header>
      <p class="soft">Looks through the state directory for faults and says what to do about each. Changes nothing.</p>
      {report && <Findings report={report} />}
    </section>
  );
}
