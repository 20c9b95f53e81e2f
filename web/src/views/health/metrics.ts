// Reads the text of /metrics. Quantiles come from the buckets between two readings.
export type Metrics = Map<string, { labels: Record<string, string>; value: number }[]>;

export function parse(body: string): Metrics {
  const all: Metrics = new Map();
  for (const line of body.split('\n')) {
    const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)/.exec(line);
    if (!found || line.startsWith('#')) continue;
    const labels = Object.fromEntries(
      [...(found[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name!, value!]),
    );
    const rows = all.get(found[1]!) ?? [];
    rows.push({ labels, value: Number(found[3]) });
    all.set(found[1]!, rows);
  }
  return all;
}

export const sum = (metrics: Metrics, name: string, fits: (labels: Record<string, string>) => boolean = () => true) =>
  (metrics.get(name) ?? []).filter(row => fits(row.labels)).reduce((total, row) => total + row.value, 0);

function buckets(metrics: Metrics, name: string): Map<number, number> {
  const all = new Map<number, number>();
  for (const { labels, value } of metrics.get(name + '_bucket') ?? []) {
    const le = labels.le === '+Inf' ? Infinity : Number(labels.le);
    all.set(le, (all.get(le) ?? 0) + value);
  }
  return all;
}

// The value below which `part` of what was observed between both readings lies; null when nothing was.
export function quantile(before: Metrics, after: Metrics, name: string, part: number): number | null {
  const old = buckets(before, name),
    now = [...buckets(after, name)].sort(([a], [b]) => a - b).map(([le, n]) => [le, n - (old.get(le) ?? 0)] as const);
  const total = now[now.length - 1]?.[1] ?? 0;
  if (total <= 0) return null;
  let floor = 0,
    below = 0;
  for (const [le, n] of now) {
    if (n >= total * part)
      return le === Infinity ? floor : floor + (le - floor) * (n > below ? (total * part - below) / (n - below) : 1);
    floor = le;
    below = n;
  }
  return floor;
}
