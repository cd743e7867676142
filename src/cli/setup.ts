/** `ordered-outbox setup`: the table, queues and containers, for accounts that no deployment template prepares. */
import type { Command } from "commander";
import { addOperation } from "./operation.ts";

export function addSetupCommand(program: Command): void {
  const command = program.command("setup").description("create the table, queues and containers where they are missing");
  addOperation(command, async ({ storage }, { prefix }) => {
    await storage.checkAccount();
    await storage.createResources();
    return { json: { outcome: "ready", prefix: prefix ?? "" }, text: "Table, queues and containers are there." };
  });
}
