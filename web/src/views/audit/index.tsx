// The view Audit: the requests of the audit log, or the live events.
import { EventsView } from '../events';
import { RequestsView } from './requests';
import { shownView } from './switch';

export const AuditView = () => (shownView() === 'requests' ? <RequestsView /> : <EventsView />);
