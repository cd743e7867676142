import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { PARTS } from "./parts.ts";

const MAIN = fileURLToPath(new URL("main.ts", import.meta.url));

function bench(
  ...args: readonly string[]
): Promise<{ readonly status: number | string; readonly stdout: string; readonly stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, ...args], (error, stdout, stderr) => resolve({ status: error?.code ?? 0, stdout, stderr }));
  });
}

test("--list names the parts", async () => {
  const { status, stdout } = await bench("--list");
  expect(status).toBe(0);
  expect(stdout.split("\n").map((line) => line.split(" ")[0])).toEqual([...Object.keys(PARTS), ""]);
});

test("an unknown part is wrong usage, and the known ones are named", async () => {
  const { status, stderr } = await bench("--only", "nope");
  expect(status).toBe(2);
  expect(stderr).toContain(`The parts are: ${Object.keys(PARTS).join(", ")}.`);
});
