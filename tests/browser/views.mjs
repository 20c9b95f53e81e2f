// Every view, as an address in the demo's day. What is added to the dashboard is added here, and looked at by see_views.mjs.
const ADA = 'sessions/main/agent:main:slack:direct:ada',
  ENGINEERS = 'sessions/main/agent:main:slack:channel:c-eng';
export const VIEWS = {
  sessions: '#/sessions',
  conversation: `#/${ADA}`,
  approval: `#/${ENGINEERS}`,
  'taken-over': '#/sessions/support/agent:support:web:direct:visitor-9004',
  denied: '#/sessions/main/agent:main:whatsapp:group:family-sale',
  'models-view': `#/${ADA}?llm=1`,
  runs: `#/${ENGINEERS}/runs`,
  session: `#/${ADA}/session`,
  history: '#/sessions/support/agent:support:whatsapp:direct:49176/history',
  missing: '#/sessions/main/agent:main:none',
  work: '#/work',
  search: '#/search?q=parcel',
  events: '#/events',
  policy: '#/policy?rule=1',
  health: '#/health',
  tokens: '#/admin/tokens',
  audit: '#/admin/audit',
  maintenance: '#/admin/maintenance',
  configuration: '#/admin/configuration',
};
