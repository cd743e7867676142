/**
 * Log entries as lines on stderr. Every text is written as a JSON string unless it is a plain word, so that an OrderId or an error with line
 * breaks, quotes or escape sequences in it can't forge a line or a field, nor drive the terminal; and so that it can be read back.
 */
import { cutText, printableJson } from "../core/printable-json.ts";
import type { LogFields, Logger } from "../core/logger.ts";

export interface ConsoleLoggerOptions {
  /** One JSON object a line, for log collectors, instead of text for people. Default false. */
  readonly json?: boolean;
  /** Debug entries too. Default false. */
  readonly verbose?: boolean;
  /** Takes one line with its line break. Default: stderr. */
  readonly write?: (line: string) => void;
  /** Wall clock in ms since 1970. Default `Date.now`. */
  readonly now?: () => number;
}

type Level = keyof Logger;

export function createConsoleLogger(options: ConsoleLoggerOptions = {}): Logger {
  const { json = false, verbose = false, write = (line) => void process.stderr.write(line), now = Date.now } = options;
  const format = json ? jsonLine : textLine;
  const at =
    (level: Level) =>
    (message: string, fields: LogFields = {}): void =>
      write(`${format(new Date(now()).toISOString(), level, message, fields)}\n`);
  return { debug: verbose ? at("debug") : () => {}, info: at("info"), warn: at("warn"), error: at("error") };
}

function jsonLine(time: string, level: Level, message: string, fields: LogFields): string {
  const entry = { time, level, message: cutText(message) };
  const rest = Object.entries(fields).map(([name, value]) => [name, typeof value === "string" ? cutText(value) : value]);
  // Twice: the first sets the place, the last keeps a field from taking over one of the three names.
  return printableJson({ ...entry, ...Object.fromEntries(rest), ...entry });
}

/** The message is always quoted, so that nothing in it can be taken for a field. */
function textLine(time: string, level: Level, message: string, fields: LogFields): string {
  const rest = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${wordOrQuoted(name)}=${typeof value === "string" ? wordOrQuoted(cutText(value)) : value}`);
  return `${time} ${level.toUpperCase().padEnd(5)} ${printableJson(cutText(message))}${rest.join("")}`;
}

/** A plain word as it is; anything that could be read as more than one field in quotes. */
function wordOrQuoted(text: string): string {
  return /^[\w.:/@+-]+$/.test(text) ? text : printableJson(text);
}
