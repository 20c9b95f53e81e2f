// Codes of refusals: how each ends the sentence of a line, and what it means.
export const CODES: Record<string, [ending: string, meaning: string]> = {
  unauthorized: [
    ' without a valid token',
    'There was no token, or one that is not valid. Nothing was read or changed.',
  ],
  forbidden: ['', 'The token may not do that. Nothing was read or changed.'],
  too_many_requests: [' too often', 'More came than the limit allows. The daemon asked to wait and try again.'],
  misdirected_host: [
    ' by a wrong host',
    'The request named a host that is not this daemon’s. A page of another site may have sent it.',
  ],
  policy_denied: [', denied by the send policy', 'A rule of the send policy denies it. Nothing was sent.'],
  taken_over: [' while a person spoke', 'A person speaks in place of the agent. The agent has to wait.'],
  lease_lost: [
    ' after its lease was lost',
    'It gave no sign in time, so the work was taken from it. What it wrote late was not stored.',
  ],
  session_not_found: ['', 'There is no such session, or the token may not see it.'],
  session_archived: [' while it was archived', 'The session is closed. It takes messages again once it is reopened.'],
  precondition_failed: [' that had changed', 'Somebody else changed it first. Nothing was overwritten.'],
  validation_failed: ['', 'Something in the request is not valid. Nothing was changed.'],
  storage_full: [' on a full disk', 'The disk is full. Nothing new is stored until there is room.'],
};
// A refused answer to an approval has one of two reasons. The audit log does not say which.
const OWN_APPROVAL =
  'A token that asks for an approval cannot give it, and some roles answer none. This answer did not count.';

export function meaningOf(code = '', route = ''): string {
  if (code === 'forbidden' && route.endsWith('/approvals/{id}')) return OWN_APPROVAL;
  return (
    CODES[code]?.[1] ?? (code.endsWith('_not_found') ? 'It is not there any more, or the token may not see it.' : '')
  );
}
