/** The table of commands. What they do is in the file of each. */
import { Command } from "commander";
import { addAuditCommand } from "./audit.ts";
import { addDeadCommands } from "./dead.ts";
import { addExplainCommand } from "./explain.ts";
import { addMaintenanceCommands } from "./maintenance.ts";
import { addOrdersCommands } from "./orders.ts";
import { addPauseCommands } from "./pause.ts";
import { addReplayCommands } from "./replay.ts";
import { addSetupCommand } from "./setup.ts";
import { addStatusCommand } from "./status.ts";
import { isJsonWanted } from "./usage-error.ts";
import { addVerifyCommand } from "./verify.ts";
import { addWakeCommands } from "./wake.ts";
import { addWorkCommand } from "./work.ts";

/** @param words of the command line, without interpreter and script; only for what is printed of errors */
export function createProgram(version: string, words: readonly string[] = []): Command {
  const program = new Command("ordered-outbox")
    .description("Ordered event processing on one Azure Storage account")
    .version(version)
    .exitOverride()
    .configureOutput({
      // Errors are told by reportUsageError; what is left is help that nobody asked for.
      outputError: () => {},
      writeErr: (text) => void (isJsonWanted(words) || process.stderr.write(text)),
    });
  addSetupCommand(program);
  addWorkCommand(program);
  addStatusCommand(program);
  addOrdersCommands(program);
  addExplainCommand(program);
  addDeadCommands(program);
  addReplayCommands(program);
  addPauseCommands(program);
  addWakeCommands(program);
  addAuditCommand(program);
  addVerifyCommand(program);
  addMaintenanceCommands(program);
  return program.addHelpText(
    "after",
    "\nExit status: 0 done; 1 failed, or not all of it was possible; 2 wrong use; 3 stopped before the end; 4 found something that needs a human.",
  );
}
