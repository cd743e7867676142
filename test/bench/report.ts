/** The results of a run as text for people. */
import { isReached, short, type FailedPart, type Figure, type FinishedPart, type Goal, type Table } from "./result.ts";

export interface Versions {
  readonly node: string;
  /** Of the packages that matter, `azurite` among them. */
  readonly packages: Readonly<Record<string, string>>;
  readonly cores: number;
  readonly processor: string;
}

export interface Report {
  /** ISO 8601. */
  readonly startedAt: string;
  readonly seconds: number;
  readonly versions: Versions;
  readonly parts: readonly (FinishedPart | FailedPart)[];
}

export const NOT_MEASURED: readonly string[] = [
  "A real Azure account: its latency, its limits (20,000 requests a second an account, 500 a second a blob, 2,000 a second a table partition and a queue), its throttling. Calls and dollars of events that come alone are the same there; a burst costs by how long it takes, too.",
  "The Functions host: cold starts, scaling, its own use of storage, computing time in dollars.",
  "Networks, TLS, sign-in with Entra ID (the emulator's key is signed with; a token costs less processor time a call), big payloads.",
  "Service Bus: its price is reckoned, its speed is not measured.",
];

export function isFailed(part: FinishedPart | FailedPart): part is FailedPart {
  return "error" in part;
}

export function figuresOf({ parts }: Pick<Report, "parts">): readonly Figure[] {
  return parts.flatMap((part) => (isFailed(part) ? [] : part.figures));
}

/** Markdown, in the width that it comes to. */
export function renderTable({ columns, rows }: Pick<Table, "columns" | "rows">): string {
  const row = (cells: readonly string[]): string => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [row(columns), row(columns.map(() => "---")), ...rows.map(row)].join("\n");
}

/** Columns of the first table. */
export const GOAL_COLUMNS: readonly string[] = ["what", "measured", "goal", "reached"];

function goalsTable(figures: readonly Figure[]): Pick<Table, "columns" | "rows"> {
  return {
    columns: GOAL_COLUMNS,
    rows: figures.map((figure) => [
      figure.name,
      `${short(figure.value)} ${figure.unit}`.trim(),
      goalText(figure.goal),
      isReached(figure) ? "yes" : "**no**",
    ]),
  };
}

function goalText({ atLeast, atMost }: Goal): string {
  return atLeast === undefined ? `≤ ${atMost}` : `≥ ${atLeast}`;
}

/** @param detailed with the tables that are not for the README */
export function renderReport(report: Report, detailed: boolean): string {
  const { versions, startedAt, seconds, parts } = report;
  const packages = Object.entries(versions.packages).map(([name, version]) => `${name} ${version}`);
  const sections = parts.map((part) => (isFailed(part) ? `### ${part.title}\n\nFailed: ${part.error}` : renderPart(part, detailed)));
  return [
    `\`npm run bench\`, ${startedAt.slice(0, 10)}, ${Math.round(seconds)} s: Node ${versions.node}, ${packages.join(", ")}; ${versions.cores} cores (${versions.processor}). Times are those of one emulator on one machine: read the ratios. Calls are counted, dollars reckoned from them.`,
    renderTable(goalsTable(figuresOf(report))),
    ...sections,
    `### Not measured\n\n${list(NOT_MEASURED)}`,
  ].join("\n\n");
}

function renderPart({ title, tables, notes, seconds, busyWithOthers }: FinishedPart, detailed: boolean): string {
  const load =
    busyWithOthers > 0.2 ? [`Others kept ${busyWithOthers.toFixed(1)} processors busy during these ${Math.round(seconds)} s.`] : [];
  return [
    `### ${title}`,
    ...tables.filter(({ detail }) => detailed || detail !== true).map((table) => `${table.title}:\n\n${renderTable(table)}`),
    list([...notes, ...load]),
  ].join("\n\n");
}

function list(lines: readonly string[]): string {
  return lines.map((line) => `- ${line}`).join("\n");
}
