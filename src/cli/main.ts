#!/usr/bin/env node
/** The table of commands. What they do is in the file of each. */
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { EXIT, exit, exitStatusOf } from "./exit.ts";
import { addSetupCommand } from "./setup.ts";
import { addWorkCommand } from "./work.ts";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };

/** What the sources use came with this version; an older one would fail somewhere in the middle. */
const MIN_NODE_MAJOR = 22;
if (Number(process.versions.node.split(".", 1)[0]) < MIN_NODE_MAJOR) {
  process.stderr.write(`ordered-outbox needs Node.js ${MIN_NODE_MAJOR}.18 or later, this is ${process.version}\n`);
  await exit(EXIT.usage);
}

const program = new Command("ordered-outbox")
  .description("Ordered event processing on one Azure Storage account")
  .version(version)
  .exitOverride();
addSetupCommand(program);
addWorkCommand(program);

try {
  await program.parseAsync();
} catch (error) {
  // Commander has printed what is wrong with the command line, or the help.
  await exit(exitStatusOf(error));
}
