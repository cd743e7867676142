#!/usr/bin/env node
/** The `ordered-outbox` command. */
import { readFileSync } from "node:fs";
import { EXIT, exit } from "./exit.ts";
import { createProgram } from "./program.ts";
import { reportUsageError } from "./usage-error.ts";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };

/** What the sources use came with this version; an older one would fail somewhere in the middle. */
const MIN_NODE_MAJOR = 22;
if (Number(process.versions.node.split(".", 1)[0]) < MIN_NODE_MAJOR) {
  process.stderr.write(`ordered-outbox needs Node.js ${MIN_NODE_MAJOR}.18 or later, this is ${process.version}\n`);
  await exit(EXIT.usage);
}

const words = process.argv.slice(2);
const program = createProgram(version, words);
try {
  await program.parseAsync();
} catch (error) {
  await exit(reportUsageError(program, error, words));
}
