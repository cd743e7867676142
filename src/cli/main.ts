#!/usr/bin/env node
/** The `ordered-outbox` command. */
import { readFileSync } from "node:fs";
import { EXIT, exit, ignoreClosedPipes } from "./exit.ts";
import { isNodeSupported, MIN_NODE } from "./node-version.ts";
import { createProgram } from "./program.ts";
import { reportUsageError } from "./usage-error.ts";

const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };

ignoreClosedPipes();
if (!isNodeSupported(process.versions.node)) {
  process.stderr.write(`ordered-outbox needs Node.js ${MIN_NODE} or later, this is ${process.version}\n`);
  await exit(EXIT.usage);
}

const words = process.argv.slice(2);
const program = createProgram(version, words);
try {
  await program.parseAsync();
} catch (error) {
  await exit(reportUsageError(program, error, words));
}
