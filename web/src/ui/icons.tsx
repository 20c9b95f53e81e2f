// Line icons of 20 by 20, drawn with the colour of the text beside them.
const PATHS: Record<string, string> = {
  sessions: 'M3.5 5.5h13M3.5 10h9M3.5 14.5h11',
  work: 'M10 3v3M10 14v3M3 10h3M14 10h3M10 7.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5Z',
  policy: 'M10 3 4 5.5v4c0 4 2.6 6.4 6 7.5 3.4-1.1 6-3.500 6-7.500v-4L10 3Z',
  events: 'M3 10h3l2-5 4 10 2-5h3',
  health: 'M10 16s-6-3.700-6-8a3.200 3.200 0 0 1 6-1.600A3.200 3.200 0 0 1 16 8c0 4.300-6 8-6 8Z',
  admin: 'M12.500 7.500a4 4 0 1 1-3.400 4.900L3 12.400v3h2.500v-1.500H8M13.500 7.600a.6.6 0 1 1 0-.1',
  search: 'M9 4a5 5 0 1 0 0 10A5 5 0 0 0 9 4ZM12.700 12.700 16.500 16.500',
  back: 'M12 4.500 6.500 10l5.500 5.500',
  close: 'M5 5l10 10M15 5 5 15',
  more: 'M5 10h.01M10 10h.01M15 10h.01',
  copy: 'M7.500 7.500h8v8h-8zM4.500 12.500v-8h8',
  tool: 'M12.500 4a3.500 3.500 0 0 0-3.200 5L4 14.300 5.700 16 11 10.700a3.500 3.500 0 0 0 4.800-4.200l-2.100 2.100-2.200-2.200L13.600 4.300A3.500 3.500 0 0 0 12.500 4Z',
  think:
    'M7 13.500c-1.500-1-2.500-2.400-2.500-4.300a5.500 5.500 0 0 1 11 0c0 1.900-1 3.300-2.500 4.300v1.500H7v-1.500ZM8 17h4',
  down: 'M5 7.500 10 12.500 15 7.500',
  send: 'M3.500 10 16.500 4l-4 12.500-3-5-6-1.500Z',
  stop: 'M6 6h8v8H6z',
  check: 'M4.500 10.500 8 14l7.500-8',
  warn: 'M10 4 3 16h14L10 4ZM10 9v3M10 14.200v.1',
  clock: 'M10 4a6 6 0 1 0 0 12 6 6 0 0 0 0-12ZM10 7v3.200l2 1.300',
  out: 'M8 4.500H4.500v11H8M8 10h8M13 7l3 3-3 3',
  layers: 'M10 3.500 3.500 7 10 10.500 16.500 7 10 3.500ZM4 10.500l6 3.300 6-3.300',
  help: 'M7.500 7.500a2.500 2.500 0 1 1 3.600 2.200c-.8.4-1.100.9-1.100 1.800M10 14.400v.1M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14Z',
  theme: 'M10 3.500a6.500 6.500 0 1 0 0 13v-13Z',
  pause: 'M7 5v10M13 5v10',
  play: 'M7 5l8 5-8 5V5Z',
  edit: 'M4 16l.8-3.200L13 4.600l2.400 2.400-8.200 8.200L4 16Z',
};

export function Icon({ name, size = 20 }: { name: string; size?: number }) {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <path
        d={PATHS[name] ?? ''}
        fill="none"
        stroke="currentColor"
        stroke-width="1.5"
        stroke-linecap="round"
        stroke-linejoin="round"
      />
    </svg>
  );
}
