/**
 * Log entries as lines on stderr. Every text is made printable first, so that an OrderId or an error with line breaks or escape sequences in
 * it can't forge a line or drive the terminal.
 */
import { MAX_ERROR_TEXT_LENGTH, printable } from "../core/errors.ts";
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
      write(`${format(new Date(now()).toISOString(), level, clean(message), fields)}\n`);
  return { debug: verbose ? at("debug") : () => {}, info: at("info"), warn: at("warn"), error: at("error") };
}

function jsonLine(time: string, level: Level, message: string, fields: LogFields): string {
  const entry = { time, level, message };
  const rest = Object.entries(fields).map(([name, value]) => [clean(name), typeof value === "string" ? clean(value) : value]);
  // Twice: the first sets the place, the last keeps a field from taking over one of the three names.
  return JSON.stringify({ ...entry, ...Object.fromEntries(rest), ...entry });
}

function textLine(time: string, level: Level, message: string, fields: LogFields): string {
  const rest = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${clean(name)}=${typeof value === "string" ? quoted(clean(value)) : value}`);
  return `${time} ${level.toUpperCase().padEnd(5)} ${message}${rest.join("")}`;
}

function clean(text: string): string {
  return printable(text, MAX_ERROR_TEXT_LENGTH);
}

/** A plain word as it is; anything that could be read as more than one field in quotes. */
function quoted(text: string): string {
  return /^[\w.:/@+-]+$/.test(text) ? text : JSON.stringify(text);
}
