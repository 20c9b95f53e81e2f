// Times and numbers, by the browser's locale.
import { signal } from '@preact/signals';

let ahead: number | null = null; // this browser's clock, of the daemon's; null: no event has told it yet
// Learns from an event that comes just now. Its way takes time, so the smallest difference is the truest.
export function learnClock(time: number) {
  const difference = Date.now() - time;
  if (ahead === null || difference < ahead) ahead = difference;
}
// The time by the daemon's clock, which all times of the API go by.
export const daemonNow = () => Date.now() - (ahead ?? 0);

export const now = signal(daemonNow()); // moves every 10 s: what tells an age is drawn again
export const seconds = signal(daemonNow()); // moves every second while the page is seen, for what is counted
setInterval(() => {
  now.value = daemonNow();
}, 10_000);
setInterval(() => {
  if (!document.hidden) seconds.value = daemonNow();
}, 1000);

const number = new Intl.NumberFormat();
const compact = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 });
const time = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat(undefined, { weekday: 'long', day: 'numeric', month: 'long' });
const exact = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const brief = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
});
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

export const count = (n: number) => number.format(n);
export const short = (n: number) => compact.format(n);
export const clock = (ms: number) => time.format(ms);
export const dayOf = (ms: number) => day.format(ms);
export const clockExact = (ms: number) => exact.format(ms);
// To the second; of another day the date and the minute.
export const timeOf = (ms: number) =>
  (new Date(ms).toDateString() === new Date().toDateString() ? exact : brief).format(ms);
export const moment = (ms: number) => full.format(ms);

export function span(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  return s < 1
    ? `${Math.round(s * 1000)} ms`
    : s < 60
      ? `${Math.floor(s)} s`
      : s < 3600
        ? `${Math.floor(s / 60)} min`
        : s < 86400
          ? `${Math.floor(s / 3600)} h`
          : `${Math.floor(s / 86400)} d`;
}
// How long something took: 0.6 s, 14 s, 2:05.
export const took = (ms: number) =>
  ms < 9_950 ? `${(ms / 1000).toFixed(1)} s` : ms < 60_000 ? `${Math.round(ms / 1000)} s` : lasted(ms);
// A time that is counted: 0:38, 12:05, 1:02:05.
export function lasted(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000)),
    two = (n: number) => String(n).padStart(2, '0');
  const hours = Math.floor(s / 3600),
    minutes = Math.floor(s / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
}
export const ago = (ms: unknown) =>
  typeof ms === 'number' && ms > 0 ? (now.value - ms < 8000 ? 'now' : span(now.value - ms)) : '';
export const bytes = (n: number) =>
  n < 1024
    ? `${n} B`
    : n < 1048576
      ? `${(n / 1024).toFixed(1)} KiB`
      : n < 1073741824
        ? `${(n / 1048576).toFixed(1)} MiB`
        : `${(n / 1073741824).toFixed(2)} GiB`;
export const cost = (usd: number) => (usd >= 0.1 ? `$${usd.toFixed(2)}` : `$${usd.toPrecision(2)}`);
export const text = (value: unknown): string => (typeof value === 'string' ? value : '');
export const json = (value: unknown) => JSON.stringify(value, null, 2) ?? '';
// Characters that show nothing, or turn the direction of what stands around them, as \u202e: a person decides by what is seen.
export const visible = (value: string) =>
  value.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu,
    c => `\\u${c.codePointAt(0)!.toString(16).padStart(4, '0')}`,
  );
