/** The README's section that the bench writes. */

export const START = "<!-- bench: npm run bench writes from here -->";
export const END = "<!-- bench: to here -->";

/** Throws if the README has no place for it. */
export function replaceSection(readme: string, content: string): string {
  const { start, end } = bounds(readme);
  return `${readme.slice(0, start)}\n\n${content}\n\n${readme.slice(end)}`;
}

export function sectionOf(readme: string): string {
  const { start, end } = bounds(readme);
  return readme.slice(start, end).trim();
}

/** Of what is between the markers. */
function bounds(readme: string): { readonly start: number; readonly end: number } {
  const start = readme.indexOf(START);
  const end = readme.indexOf(END);
  if (start < 0 || end < start) throw new Error(`the README must have "${START}" and, after it, "${END}"`);
  return { start: start + START.length, end };
}
