/**
 * Part of `npm run package:check`: publint on the built package, with one thing it can't know. `main` is the glob that the Azure Functions worker
 * reads; nobody resolves it as a module, for `exports` comes first in every Node that this package supports.
 */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { publint } from "publint";
import { formatMessage } from "publint/utils";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

if (!existsSync(`${ROOT}/dist/index.js`)) throw new Error("there is nothing to check: run `npm run build` first");
const { messages } = await publint({ pkgDir: ROOT, pack: "npm", strict: true });
const manifest = JSON.parse(readFileSync(`${ROOT}/package.json`, "utf8")) as Record<string, unknown>;
const found = messages.filter(({ code, path }) => !(code === "FILE_DOES_NOT_EXIST" && path.join(".") === "main"));
for (const message of found) process.stderr.write(`${message.type}: ${formatMessage(message, manifest)}\n`);
if (found.length > 0) process.exitCode = 1;
