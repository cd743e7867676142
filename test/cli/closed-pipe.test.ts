/** `ordered-outbox … | head`: the reader goes before the command has said all. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

test.each([
  ["stdout", ["dead", "redrive", "--help"], 0],
  ["stderr", ["status", "--no-such"], 2],
] as const)("nobody reads %s: the command ends as it would have, and says nothing of it", async (closed, args, status) => {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  child[closed].destroy();
  const said = text(closed === "stdout" ? child.stderr : child.stdout);
  const [code] = (await once(child, "close")) as [number];
  expect([code, await said]).toEqual([status, ""]);
});
