// Text with the words marked. What people wrote is never HTML.
// `ranges` are [at, length] in code points of the text.
export function Marked({ text, ranges }: { text: string; ranges: readonly (readonly number[])[] }) {
  const points = [...text];
  const between = (from: number, to?: number) => points.slice(from, to).join('');
  let end = 0;
  const parts = ranges.map(([at = 0, length = 0], n) => {
    const before = between(end, at);
    end = at + length;
    return [before, <mark key={n}>{between(at, end)}</mark>];
  });
  return (
    <>
      {parts}
      {between(end)}
    </>
  );
}
