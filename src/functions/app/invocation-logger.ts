/** Log entries go to the invocation they belong to, so that the host knows which function and trace they are of. */
import { AsyncLocalStorage } from "node:async_hooks";
import type { InvocationContext } from "@azure/functions";
import { MAX_ERROR_TEXT_LENGTH, printable } from "../../core/errors.ts";
import type { LogFields, Logger } from "../../core/logger.ts";
import { cutText, printableJson } from "../../core/printable-json.ts";

interface Invocation {
  readonly context: InvocationContext;
  /** The host warns of entries that come later. */
  ended: boolean;
}

const invocations = new AsyncLocalStorage<Invocation>();

/** Runs a function's work so that {@link invocationLogger} knows where it belongs. */
export async function inInvocation<Result>(context: InvocationContext, work: () => Promise<Result>): Promise<Result> {
  const invocation: Invocation = { context, ended: false };
  try {
    return await invocations.run(invocation, work);
  } finally {
    invocation.ended = true;
  }
}

export const invocationLogger: Logger = {
  debug: (message, fields) => write("debug", message, fields),
  info: (message, fields) => write("info", message, fields),
  warn: (message, fields) => write("warn", message, fields),
  error: (message, fields) => write("error", message, fields),
};

function write(level: keyof Logger, message: string, fields: LogFields = {}): void {
  const rest = Object.entries(fields).map(([name, value]) => [name, typeof value === "string" ? cutText(value) : value]);
  // The fields are JSON, whose escapes leave the values what they are.
  const line = `${printable(message, MAX_ERROR_TEXT_LENGTH)} ${printableJson(Object.fromEntries(rest))}`;
  const invocation = invocations.getStore();
  if (invocation === undefined || invocation.ended) process.stderr.write(`${level}: ${line}\n`);
  // A format string with one argument: a percent sign in the line stays what it is.
  else invocation.context[level]("%s", line);
}
