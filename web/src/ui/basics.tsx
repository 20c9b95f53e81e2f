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

const CHANNELS: Record<string, number> = {
  slack: 300,
  discord: 235,
  telegram: 200,
  whatsapp: 140,
  signal: 215,
  matrix: 165,
  irc: 30,
  email: 15,
  web: 260,
};
// A colour for each channel, the same on every page.
export function Channel({ name }: { name: string }) {
  const hue = CHANNELS[name] ?? [...name].reduce((sum, c) => (sum * 31 + c.codePointAt(0)!) % 360, 7);
  return name ? (
    <span class="channel" data-hue={Math.round(hue / 30) % 12}>
      {name}
    </span>
  ) : null;
}

export function Age({ at }: { at: unknown }) {
  void now.value;
  return typeof at === 'number' && at > 0 ? (
    <time class="soft num" dateTime={new Date(at).toISOString()} title={moment(at)}>
      {ago(at)}
    </time>
  ) : null;
}

export function Copy({
  value,
  label = 'Copy',
  children,
}: {
  value: () => string;
  label?: string;
  children?: ComponentChildren;
}) {
  const copy = () =>
    navigator.clipboard.writeText(value()).then(
      () => toast('Copied'),
      () => toast('The browser did not allow copying', 'bad'),
    );
  return (
    <button
      type="button"
      class={children ? '' : 'ghost icon-only'}
      aria-label={label}
      title={label}
      onClick={() => void copy()}
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

export function Head({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <header class="view-head">
      <h1>{title}</h1>
      <div class="actions">{children}</div>
    </header>
  );
}
