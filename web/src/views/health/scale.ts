// The axes of a chart: round steps up to the largest value, and how they are written.
import { clock, count, short, span } from '../../ui/format';

export interface Scale {
  steps: number[];
  least: number; // the axis reaches at least so far
  written: (value: number) => string;
}

const DECADES = [0.1, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].flatMap(n => [n, 2 * n, 5 * n]),
  MINUTE = 60_000,
  HOUR = 60 * MINUTE;

export const amount: Scale = { steps: DECADES, least: 4, written: short };
export const milliseconds: Scale = {
  steps: DECADES,
  least: 1,
  written: value => (value < 1000 ? `${count(value)} ms` : `${count(value / 1000)} s`),
};
export const waiting: Scale = {
  steps: [
    ...[200, 500, 1000, 2000, 5000, 10_000, 20_000],
    ...[1, 2, 5, 10, 20].map(n => n * MINUTE),
    ...[1, 2, 6, 12, 24, 72, 168].map(n => n * HOUR),
  ],
  least: 800,
  written: span,
};

// From 0 by a round step past the largest value, in at most four steps.
export function splits({ steps, least }: Scale, largest: number): number[] {
  const top = Math.max(least, largest),
    step = steps.find(one => top / one <= 4) ?? top / 4;
  return Array.from({ length: Math.max(1, Math.ceil(top / step)) + 1 }, (_, n) => n * step);
}

export const MOMENTS = [60, 300, 900, 1800, 3600]; // seconds between two times on the axis
// What is too near to the end has no room.
export const momentsOf = (all: number[], [from, to]: [number, number]) =>
  all.map(at => ((to - at) / (to - from) < 0.06 ? '' : clock(at * 1000)));
