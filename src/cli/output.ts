/**
 * What commands print on stdout. Nothing from storage is printed as it is: an OrderId or an error with line breaks or escape sequences in it
 * must neither forge a line nor drive the terminal.
 */
import { oneLine, printable } from "../core/errors.ts";
import { printableJson } from "../core/printable-json.ts";

/** A text that was made of printable pieces, or described, before: see {@link escaped}. */
interface Escaped {
  readonly text: string;
  readonly maxLength: number;
}

export type Cell = string | number | Escaped | undefined;

/** Longer cells are cut, so that a line stays a line. */
const MAX_CELL_LENGTH = 100;
export const MAX_FACT_LENGTH = 1_000;

/**
 * For a text in which what came from outside is escaped already, as in every stored error and message: it is not escaped twice.
 *
 * @param maxLength default {@link MAX_CELL_LENGTH}
 */
export function escaped(text: string | undefined, maxLength: number = MAX_CELL_LENGTH): Escaped | undefined {
  return text === undefined ? undefined : { text, maxLength };
}

function cellText(cell: Cell, maxLength: number): string {
  if (cell === undefined) return "-";
  return typeof cell === "object" ? oneLine(cell.text, cell.maxLength) : printable(String(cell), maxLength);
}

/** Rows under their headings, in aligned columns; `-` for what is undefined. Numbers are aligned to the right. */
export function table(headings: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const cells = [headings, ...rows].map((row) => row.map((cell) => cellText(cell, MAX_CELL_LENGTH)));
  const widths = headings.map((_, column) => Math.max(...cells.map((row) => lengthOf(row[column] ?? ""))));
  const numeric = headings.map((_, column) => rows.length > 0 && rows.every((row) => typeof (row[column] ?? 0) === "number"));
  const line = (row: readonly string[]): string =>
    row.map((cell, column) => pad(cell, widths[column] ?? 0, numeric[column] === true)).join("  ");
  return cells.map((row) => line(row).trimEnd()).join("\n");
}

function pad(cell: string, width: number, right: boolean): string {
  const spaces = " ".repeat(Math.max(0, width - lengthOf(cell)));
  return right ? spaces + cell : cell + spaces;
}

const graphemes = new Intl.Segmenter();

/** In characters as people count them; wide ones (East Asian, emoji) may still shift a line by a column. */
function lengthOf(text: string): number {
  return [...graphemes.segment(text)].length;
}

/** `Name: value` lines. */
export function facts(entries: Readonly<Record<string, Cell>>): string {
  const width = Math.max(...Object.keys(entries).map((name) => name.length));
  return Object.entries(entries)
    .map(([name, value]) => `${`${name}:`.padEnd(width + 1)} ${cellText(value, MAX_FACT_LENGTH)}`)
    .join("\n");
}

/** One JSON document, the values as they are. */
export function jsonDocument(value: unknown): string {
  return printableJson(value, 2);
}

/** A time span in its two biggest units: `3d 4h`, `5m 2s`, `0s`. */
export function duration(seconds: number): string {
  const units = [
    ["d", 86_400],
    ["h", 3_600],
    ["m", 60],
    ["s", 1],
  ] as const;
  let rest = Math.max(0, Math.floor(seconds));
  const parts = units.flatMap(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest %= size;
    return count === 0 ? [] : [`${count}${unit}`];
  });
  return parts.slice(0, 2).join(" ") || "0s";
}

/** A command of this program as one can paste it into a POSIX shell (bash, zsh, ksh for ids with control characters). */
export function commandLine(args: readonly string[]): string {
  return ["ordered-outbox", ...args.map(shellQuoted)].join(" ");
}

function shellQuoted(text: string): string {
  if (/^[\w.:/@%+=,-]+$/.test(text)) return text;
  if (oneLine(text, text.length) === text) return `'${text.replaceAll("'", `'\\''`)}'`;
  // Byte by byte, in octal: the same in every locale, and no digit behind it can be taken for a part of it.
  const quoted = text.replace(/[\\']/g, "\\$&").replace(/[^\x20-\x7E]+/g, (run) => [...Buffer.from(run)].map(octal).join(""));
  return `$'${quoted}'`;
}

function octal(byte: number): string {
  return `\\${byte.toString(8).padStart(3, "0")}`;
}
