// Lines over the last minutes, by uPlot, in the colours of the page; a known cause is a band behind them.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import { theme } from '../../state/theme';
import { clock } from '../../ui/format';
import { Icon } from '../../ui/icons';
import { MOMENTS, momentsOf, splits, type Scale } from './scale';

const HEIGHT = 150;

export interface Lines {
  title: string;
  newest: string;
  tone?: 'warn' | 'bad' | '';
  scale: Scale;
  series: { name: string; values: (number | null)[] }[];
  times: number[]; // seconds
  window: [from: number, to: number];
  bands?: [from: number, to: number][];
  cause?: string;
}

const dataOf = ({ times, series }: Lines): uPlot.AlignedData => [times, ...series.map(one => one.values)];
const splitsOf = ({ scale, series }: Lines) =>
  splits(scale, Math.max(...series.flatMap(one => one.values.map(v => v ?? 0))));

function options(lines: () => Lines, width: number): uPlot.Options {
  const style = getComputedStyle(document.documentElement),
    colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour('--soft'),
    ticks: { show: false },
    font: `11px ${style.fontFamily || 'system-ui'}`,
    gap: 6,
  };
  const drawBands = (plot: uPlot) => {
    const { ctx, bbox } = plot;
    for (const [from, to] of lines().bands ?? []) {
      const left = Math.max(bbox.left, plot.valToPos(from, 'x', true)),
        right = Math.max(left + 2, plot.valToPos(to, 'x', true));
      ctx.fillStyle = colour('--warn-bg');
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
      ctx.fillStyle = colour('--warn-line');
      ctx.fillRect(left, bbox.top, right - left, 2 * devicePixelRatio);
    }
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 1, 0, 0],
    scales: {
      x: { range: () => lines().window },
      y: { range: () => [0, splitsOf(lines()).at(-1)!] },
    },
    axes: [
      {
        ...axis,
        size: 22,
        space: 64,
        incrs: MOMENTS,
        grid: { show: false },
        values: (_u, all) => momentsOf(all, lines().window),
      },
      {
        ...axis,
        size: 46,
        grid: { stroke: colour('--line'), width: 1 },
        splits: () => splitsOf(lines()),
        values: (_u, all) => all.map(value => (value ? lines().scale.written(value) : '0')),
      },
    ],
    hooks: { drawClear: [drawBands] },
    series: [
      {},
      ...lines().series.map((one, n, all) => ({
        label: one.name,
        stroke: colour(n ? '--series-2' : '--series-1'),
        fill: all.length > 1 ? undefined : `${colour('--series-1')}1a`,
        width: 1.5,
        points: { show: false },
        spanGaps: true,
      })),
    ],
  };
}

export function Chart(lines: Lines) {
  const { title, newest, tone, series, bands, cause } = lines;
  const at = useRef<HTMLDivElement>(null),
    plot = useRef<uPlot | null>(null),
    drawn = useRef(lines);
  drawn.current = lines;
  useEffect(() => {
    const box = at.current!,
      made = new uPlot(
        options(() => drawn.current, box.clientWidth),
        dataOf(drawn.current),
        box,
      );
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: box.clientWidth, height: HEIGHT }));
    watch.observe(box);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [theme.value]);
  useEffect(() => plot.current?.setData(dataOf(drawn.current)), [lines.times]);
  const caused = !!bands?.length && cause,
    when = bands?.map(([from, to]) => `${clock(from * 1000)} to ${clock(to * 1000)}`).join(', ');
  return (
    <figure class="chart">
      <figcaption>
        <strong>{title}</strong>
        <b class={`num ${tone ? `${tone}-text` : ''}`}>
          {tone && <Icon name="warn" size={14} />} {newest}
        </b>
        <span class="legend soft">
          {series.map((one, n) => (
            <span key={one.name} class={`key k${n}`}>
              {one.name}
            </span>
          ))}
          {caused && (
            <span class="key band warn-text" title={when}>
              {cause}
            </span>
          )}
        </span>
      </figcaption>
      <div ref={at} class="plot" role="img" aria-label={`${title}: ${newest}${caused ? `; ${cause}, ${when}` : ''}`} />
    </figure>
  );
}
