/** The frame of all commands that look at or change what is stored: options, connection, output. */
import { userInfo } from "node:os";
import type { Command } from "commander";
import { describeError, isOutboxError, OutboxError } from "../core/errors.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/logger.ts";
import type { OperationsContext, Operator } from "../operations/context.ts";
import { connectStorage, type ConnectedStorage } from "../storage/connect.ts";
import { systemClock } from "../system/clock.ts";
import { watchStopSignals } from "../system/stop-signals.ts";
import { addConnectionOptions, resolveConnection, type ConnectionOptions } from "./connection.ts";
import { action, exit, EXIT, hintFor, hintsOf, type ExitStatus, type Hints, type OutputOptions } from "./exit.ts";
import { jsonDocument } from "./output.ts";

export interface OperationOptions extends ConnectionOptions, OutputOptions {
  readonly actor?: string;
  readonly reason?: string;
  readonly dryRun?: boolean;
}

/** What a command has to say. */
export interface Answer {
  /** For `--json`: all that stdout gets. */
  readonly json: unknown;
  /** For people; printable already. */
  readonly text: string;
  /** Default {@link EXIT.ok}. */
  readonly status?: ExitStatus;
}

export interface CommandContext extends OperationsContext {
  readonly storage: ConnectedStorage;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/**
 * Gives a command the options of all operations, and what it does.
 *
 * @param run gets the options and the positional arguments
 * @param settings `stoppable`: SIGINT or SIGTERM aborts the context's signal, so that what was begun is completed, and a second one ends the
 *   process at once. Default: a signal ends the process at once. `hints`: what this command can do about a failure.
 */
export function addOperation<Options extends OperationOptions, Arguments extends readonly (string | undefined)[] = []>(
  command: Command,
  run: (context: CommandContext, options: Options, ...args: Arguments) => Promise<Answer>,
  settings: { readonly stoppable?: boolean; readonly hints?: Hints } = {},
): Command {
  return addConnectionOptions(command)
    .option("--json", "print one JSON document on stdout; log one JSON object a line on stderr")
    .option("--verbose", "log debug entries too")
    .action(
      action<Options, Arguments>(async (options, logger, ...args) => {
        using signals = settings.stoppable === true ? watchStopSignals() : undefined;
        signals?.abort.addEventListener("abort", () => void exit(EXIT.aborted), { once: true });
        const signal = signals?.stop ?? new AbortController().signal;
        let answer: Answer;
        try {
          const connection = await resolveConnection(options, process.env);
          const storage = connectStorage({ ...connection, ...(options.prefix === undefined ? {} : { prefix: options.prefix }) });
          answer = await run({ storage, clock: systemClock, logger, signal }, options, ...args);
        } catch (error) {
          if (options.json === true) process.stdout.write(`${jsonDocument(failure(error, hintsOf(command, settings.hints)))}\n`);
          throw error;
        }
        process.stdout.write(`${options.json === true ? jsonDocument(answer.json) : answer.text}\n`);
        return answer.status ?? EXIT.ok;
      }, settings.hints),
    );
}

/** What `--json` prints instead of an answer; the log on stderr has more. */
function failure(
  error: unknown,
  hints: Hints,
): { readonly error: { readonly code: string; readonly message: string; readonly hint?: string } } {
  const hint = hintFor(error, hints);
  const code = isOutboxError(error) ? error.code : "unexpected";
  return { error: { code, message: describeError(error), ...(hint === undefined ? {} : { hint }) } };
}

/** @param reason `required`, or what it is when none is given */
export function addOperatorOptions(command: Command, reason: "required" | "optional"): Command {
  command.option("--actor <name>", "who does this, for the audit log (default: the user of the operating system)");
  return reason === "required"
    ? command.requiredOption("--reason <text>", "why, for the audit log")
    : command.option("--reason <text>", "why, for the audit log (default: by hand)");
}

export function addDryRunOption(command: Command): Command {
  return command.option("--dry-run", "say what would be done, change nothing");
}

export function operatorOf({ actor, reason }: OperationOptions): Operator {
  return { actor: actor ?? systemUser(), reason: reason ?? "by hand" };
}

function systemUser(): string {
  try {
    return userInfo().username;
  } catch (cause) {
    // A container may run under a number that has no name.
    throw new OutboxError("invalid-option", "the operating system has no name for this user: use --actor", { cause });
  }
}

/** Tells of long operations now and then. */
export function progressLog(logger: Logger, what: string): (done: number, total: number) => void {
  let told = 0;
  return (done, total) => {
    if (done - told < Math.max(100, total / 10)) return;
    told = done;
    logger.info(what, { done, total });
  };
}
