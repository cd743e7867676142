/** How a command ends: its message and exit status, in one place for all commands. */
import { CommanderError, type Command } from "commander";
import { describeError, isOutboxError, type ErrorCode } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { createConsoleLogger } from "../system/console-logger.ts";

export const EXIT = {
  ok: 0,
  /** Something went wrong at run time: storage, network, a refused credential. */
  failed: 1,
  /** The command line, a setting or a module that it names is wrong. Repeating it is of no use. */
  usage: 2,
  /** Stopped before the end, by a signal or a `--limit`. Handlers that had to be aborted or left behind: their events run again. Operations: what is done stays done. */
  aborted: 3,
  /** The command did its work, and what it found needs a human: damage, an order that is stuck. */
  found: 4,
} as const;
export type ExitStatus = (typeof EXIT)[keyof typeof EXIT];

const USAGE_CODES: readonly ErrorCode[] = ["invalid-option", "invalid-order-id", "unknown-event-type", "unsupported-account"];

/** What to do about it, where the message of the error doesn't say so. */
export type Hints = Partial<Readonly<Record<ErrorCode, string>>>;

const HINTS: Hints = {
  "not-found": "run `ordered-outbox setup` once, or check --prefix",
  forbidden: "sign in, and give the identity the data roles for blobs, queues and tables of this account; or the key is wrong",
  unavailable: "check the account's name, network rules and state, then try again",
  timeout: "check the network to the account, then try again",
  conflict: "repeat the command: what it has done is not done again",
  aborted: "repeat the command: what it has done stays done",
  corrupt: "`ordered-outbox verify` names what is wrong with the order",
  storage: "look at the status in the message and at the account's settings, then try again",
  bug: "report it, with this line",
};

export function exitStatusOf(error: unknown): ExitStatus {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  if (isOutboxError(error, "aborted")) return EXIT.aborted;
  return isOutboxError(error, ...USAGE_CODES) ? EXIT.usage : EXIT.failed;
}

/** Options that every command has. */
export interface OutputOptions {
  readonly json?: boolean;
  readonly verbose?: boolean;
}

/**
 * Makes a commander action of a command: its errors become one log line and an exit status.
 *
 * @param command gets the options, then the positional arguments (undefined for an optional one that is missing); resolves to its exit
 *   status; may throw
 * @param hints what this command can do about failures that storage is not to blame for
 */
export function action<Options extends OutputOptions, Arguments extends readonly (string | undefined)[] = []>(
  command: (options: Options, logger: Logger, ...args: Arguments) => Promise<ExitStatus>,
  hints?: Hints,
): (...given: [...args: Arguments, options: Options, command: Command]) => Promise<void> {
  return async (...given) => {
    const args = given.slice(0, -2) as unknown as Arguments;
    const options = given.at(-2) as Options;
    const logger = createConsoleLogger(options);
    let status: ExitStatus;
    try {
      status = await command(options, logger, ...args);
    } catch (error) {
      const hint = hintFor(error, hintsOf(given.at(-1) as Command, hints));
      logger.error(describeError(error), { ...causeOf(error), ...(hint === undefined ? {} : { hint }) });
      status = exitStatusOf(error);
    }
    await exit(status);
  };
}

/**
 * Ends the process once its output is written. Not left to an empty event loop: a handler that ignored its signal, or a connection kept
 * alive, would hold the process for ever.
 */
export async function exit(status: ExitStatus): Promise<never> {
  await Promise.all([process.stdout, process.stderr].map((stream) => new Promise((resolve) => stream.write("", resolve))));
  process.exit(status);
}

/**
 * What reads our output may have gone, as in `… | head`: then there is nobody to tell, and the command ends as it would have. Without this
 * the process would end with a stack trace.
 */
export function ignoreClosedPipes(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE" && error.code !== "ERR_STREAM_DESTROYED") throw error;
    });
  }
}

/** A command's own hints, and where its options are described. */
export function hintsOf(command: Command, own: Hints = {}): Hints {
  return { "invalid-option": `\`${pathOf(command)} --help\` has what is allowed`, ...own };
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`;
}

/** The next step, where the message does not say it. */
export function hintFor(error: unknown, hints: Hints = {}): string | undefined {
  if (!isOutboxError(error)) return isOfTheSystem(error) ? undefined : "this is not foreseen: report it, with this line";
  // Thrown by what a workflow module calls, when it is loaded: `--help` knows nothing of that.
  if (error.code === "invalid-option" && error.cause instanceof Error && error.cause.name === "OutboxError") {
    return "change what the cause names, in the module or in the environment; the README describes the settings of webhooks";
  }
  // What the service does not find is a container, queue or table; what we do not find says so itself.
  if (error.code === "not-found") return error.details.status === undefined ? hints[error.code] : HINTS[error.code];
  return hints[error.code] ?? HINTS[error.code];
}

/** A port in use, a file that can't be opened: Node's own message says what it is. */
function isOfTheSystem(error: unknown): boolean {
  return error instanceof Error && "code" in error;
}

function causeOf(error: unknown): { readonly cause?: string } {
  return error instanceof Error && error.cause !== undefined ? { cause: describeError(error.cause) } : {};
}
