/** `ordered-outbox setup`: the table, queues and containers, for accounts that no deployment template prepares. */
import type { Command } from "commander";
import type { Logger } from "../core/logger.ts";
import { connectStorage } from "../storage/connect.ts";
import { addConnectionOptions, resolveConnection, type ConnectionOptions } from "./connection.ts";
import { action, EXIT, type ExitStatus, type OutputOptions } from "./exit.ts";

interface SetupOptions extends ConnectionOptions, OutputOptions {}

export function addSetupCommand(program: Command): void {
  const command = program.command("setup").description("create the table, queues and containers where they are missing");
  addConnectionOptions(command)
    .option("--json", "log one JSON object a line")
    .option("--verbose", "log debug entries too")
    .action(action(setup));
}

async function setup(options: SetupOptions, logger: Logger): Promise<ExitStatus> {
  const connection = await resolveConnection(options, process.env);
  const storage = connectStorage({ ...connection, ...(options.prefix === undefined ? {} : { prefix: options.prefix }) });
  await storage.checkAccount();
  await storage.createResources();
  logger.info("table, queues and containers are there", { prefix: options.prefix });
  return EXIT.ok;
}
