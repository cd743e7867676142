#!/usr/bin/env node
/** The `ordered-outbox` command. */
import { readFileSync } from "node:fs";
import { EXIT, exit, exitStatusOf } from "./exit.ts";
import { createProgram } from "./program.ts";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };

/** What the sources use came with this version; an older one would fail somewhere in the middle. */
const MIN_NODE_MAJOR = 22;
if (Number(process.versions.node.split(".", 1)[0]) < MIN_NODE_MAJOR) {
  process.stderr.write(`ordered-outbox needs Node.js ${MIN_NODE_MAJOR}.18 or later, this is ${process.version}\n`);
  await exit(EXIT.usage);
}

try {
  await createProgram(version).parseAsync();
} catch (error) {
  // Commander has printed what is wrong with the command line, or the help.
  await exit(exitStatusOf(error));
}
