// A line over the last minutes, by uPlot, in the colours of the page.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { theme } from '../../state/theme';

export interface Series {
  name: string;
  values: (number | null)[];
}

export function Chart({
  title,
  times,
  series,
  unit,
}: {
  title: string;
  times: number[];
  series: Series[];
  unit: string;
}) {
  const at = useRef<HTMLDivElement>(null),
    plot = useRef<uPlot | null>(null);
  useEffect(() => {
    const style = getComputedStyle(document.documentElement),
      colour = (name: string) => style.getPropertyValue(name).trim();
    const axis = {
      stroke: colour('--soft'),
      grid: { stroke: colour('--line'), width: 1 },
      ticks: { show: false },
      font: '11px system-ui',
      size: 48,
    };
    const made = new uPlot(
      {
        width: at.current!.clientWidth,
        height: 140,
        legend: { show: false },
        cursor: { drag: { x: false, y: false } },
        scales: { y: { range: (_u, _min, max) => [0, Math.max(max || 0, 1) * 1.1] } },
        axes: [
          { ...axis, size: 26, space: 80 },
          { ...axis, values: (_u, splits) => splits.map(value => `${value}${unit}`) },
        ],
        series: [
          {},
          ...series.map((one, n) => ({
            label: one.name,
            stroke: colour(n ? '--series-2' : '--series-1'),
            width: 1.6,
            points: { show: false },
            spanGaps: true,
          })),
        ],
      },
      [times, ...series.map(one => one.values)],
      at.current!,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: at.current?.clientWidth ?? 300, height: 140 }));
    watch.observe(at.current!);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [theme.value]);
  useEffect(() => {
    plot.current?.setData([times, ...series.map(one => one.values)]);
  }, [times]);
  const last = (one: Series) => {
    const value = one.values.findLast(v => v !== null);
    return value === null || value === undefined
      ? times.length < 2
        ? 'after a moment'
        : 'none'
      : `${value < 10 ? value.toFixed(1) : Math.round(value)}${unit}`;
  };
  return (
    <figure class="card chart">
      <figcaption>
        <strong>{title}</strong>
        {series.map((one, n) => (
          <span key={one.name} class={`soft key k${n}`}>
            {one.name} <b class="num">{last(one)}</b>
          </span>
        ))}
      </figcaption>
      <div
        ref={at}
        class="plot"
        role="img"
        aria-label={`${title}: ${series.map(one => `${one.name} ${last(one)}`).join(', ')}`}
      />
    </figure>
  );
}
