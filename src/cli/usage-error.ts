/** What is wrong with a command line, told as every other error is: with a next step, and under `--json` as JSON. */
import { CommanderError, type Command } from "commander";
import { oneLine } from "../core/errors.ts";
import { createConsoleLogger } from "../system/console-logger.ts";
import { EXIT, exitStatusOf, type ExitStatus } from "./exit.ts";
import { jsonDocument } from "./output.ts";

const MAX_LENGTH = 1_000;

/** Asked of the words themselves: a command line that can't be parsed has no options. */
export function isJsonWanted(words: readonly string[]): boolean {
  const end = words.indexOf("--");
  return words.slice(0, end < 0 ? words.length : end).includes("--json");
}

/**
 * Prints what commander found. Help that was asked for is printed by then and no error.
 *
 * @param words of the command line, without interpreter and script
 */
export function reportUsageError(program: Command, error: unknown, words: readonly string[]): ExitStatus {
  if (!(error instanceof CommanderError)) throw error;
  const status = exitStatusOf(error);
  if (status === EXIT.ok) return status;
  const path = commandPath(program, words);
  const command = path.at(-1)!;
  const said = lacksCommand(command, error)
    ? `a command is needed before any option: one of ${command.commands.map((each) => each.name()).join(", ")}`
    : error.message.replace(/^error: /, "");
  const message = `invalid-option: ${said
    .split("\n")
    .map((line) => oneLine(line, MAX_LENGTH))
    .join(" ")}`;
  const hint = `${path.map((each) => each.name()).join(" ")} --help`;
  if (!isJsonWanted(words)) {
    if (error.code !== "commander.help") process.stderr.write(`error: ${message}\nSee \`${hint}\`.\n`);
    return status;
  }
  createConsoleLogger({ json: true }).error(message, { hint });
  // `work` prints nothing but its log.
  if (path[1]?.name() !== "work") process.stdout.write(`${jsonDocument({ error: { code: "invalid-option", message, hint } })}\n`);
  return status;
}

/** The program, and the commands that the first words name. */
function commandPath(program: Command, words: readonly string[]): readonly Command[] {
  const path = [program];
  for (const word of words) {
    const next = path.at(-1)!.commands.find((each) => each.name() === word);
    if (next === undefined) break;
    path.push(next);
  }
  return path;
}

function lacksCommand(command: Command, { code, message }: CommanderError): boolean {
  if (command.commands.length === 0) return false;
  return code === "commander.help" || (code === "commander.unknownOption" && message.includes("'--json'"));
}
