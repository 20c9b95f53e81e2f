// The small parts that views are made of.
import type { ComponentChildren } from 'preact';
import { ago, json, moment, now } from './format';
import { Icon } from './icons';
import { toast } from './toast';

export type Tone = 'good' | 'warn' | 'bad' | 'info' | 'plain';

export const Badge = ({
  tone = 'plain',
  children,
  title,
}: {
  tone?: Tone;
  children: ComponentChildren;
  title?: string;
}) => (
  <span class={`badge ${tone}`} title={title}>
    {children}
  </span>
);

const CHANNELS: Record<string, string> = {
  whatsapp: 'WhatsApp',
  imessage: 'iMessage',
  googlechat: 'Google Chat',
  msteams: 'Teams',
  sms: 'SMS',
  irc: 'IRC',
};
// A channel as people write it.
export const channelName = (name: string) => CHANNELS[name] ?? name.slice(0, 1).toUpperCase() + name.slice(1);
export const Channel = ({ name }: { name: string }) => (name ? <span class="channel">{channelName(name)}</span> : null);

export function Age({ at }: { at: unknown }) {
  void now.value;
  return typeof at === 'number' && at > 0 ? (
    <time class="soft num" dateTime={new Date(at).toISOString()} title={moment(at)}>
      {ago(at)}
    </time>
  ) : null;
}

export const copyText = (value: string) =>
  navigator.clipboard.writeText(value).then(
    () => toast('Copied'),
    () => toast('The browser did not allow copying', 'bad'),
  );

export function Copy({
  value,
  label = 'Copy',
  children,
}: {
  value: () => string;
  label?: string;
  children?: ComponentChildren;
}) {
  return (
    <button
      type="button"
      class={children ? '' : 'ghost icon-only'}
      aria-label={label}
      title={label}
      onClick={() => void copyText(value())}
    >
      {children ?? <Icon name="copy" size={16} />}
    </button>
  );
}

export const Json = ({ value, label = 'JSON' }: { value: unknown; label?: string }) => (
  <pre class="code" tabIndex={0} role="region" aria-label={label}>
    {typeof value === 'string' ? value : json(value)}
  </pre>
);

export const Meter = ({ percent, label }: { percent: number; label: string }) => (
  <meter
    class={percent >= 85 ? 'bad' : percent >= 65 ? 'warn' : 'good'}
    min={0}
    max={100}
    low={65}
    high={85}
    optimum={20}
    value={Math.min(100, percent)}
    aria-label={label}
    title={label}
  >
    {label}
  </meter>
);

export function Field({ label, hint, children }: { label: string; hint?: string; children: ComponentChildren }) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {hint && <small class="soft">{hint}</small>}
    </label>
  );
}

export function Head({
  title,
  note,
  children,
}: {
  title: string;
  note?: ComponentChildren;
  children?: ComponentChildren;
}) {
  return (
    <header class="view-head">
      <h1>{title}</h1>
      {note && <p class="soft small">{note}</p>}
      <div class="actions">{children}</div>
    </header>
  );
}
