/** What the README tells one to paste is run as it stands there, as a program of its own on Azurite. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, inject, test } from "vitest";

const MAX_SECTION_LINES = 20;

let folder: string;
let readme: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "ordered-outbox-"));
  readme = await readFile(new URL("../../README.md", import.meta.url), "utf8");
});

afterEach(() => rm(folder, { recursive: true }));

/** From the heading to the next one. */
function section(heading: string): string {
  const start = readme.indexOf(`\n## ${heading}\n`) + 1;
  expect(start, `the README has a section ${heading}`).toBeGreaterThan(0);
  const text = readme.slice(start);
  return text.slice(0, text.search(/\n##+ (?!#)/)).trimEnd();
}

function snippet(heading: string): string {
  const [, code] = /```ts\n([\s\S]*?)```/.exec(section(heading)) ?? [];
  return code ?? "";
}

/** Runs TypeScript as Node does. Only the names of packages are made to point here. */
async function run(code: string): Promise<string[]> {
  const program = code
    .replace(`"ordered-outbox"`, JSON.stringify(new URL("../../src/index.ts", import.meta.url).href))
    .replace(`"zod"`, JSON.stringify(import.meta.resolve("zod")));
  const path = join(folder, "pasted.ts");
  await writeFile(path, program);
  const env = { ...process.env, ORDERED_OUTBOX_CONNECTION_STRING: inject("azurite") };
  const { stdout } = await promisify(execFile)(process.execPath, [path], { env, timeout: 25_000 });
  return stdout.trimEnd().split("\n");
}

test("`Add a subscription` works when it is pasted below the SDK in 20 lines, and is no longer than that", async () => {
  expect(section("Add a subscription").split("\n").length).toBeLessThanOrEqual(MAX_SECTION_LINES);
  const lines = await run(`${snippet("The SDK in 20 lines")}\n${snippet("Add a subscription")}`);
  const notified = lines.filter((line) => /^\d shipment\./.test(line));
  expect(notified.map((line) => line.split(" ").slice(0, 2).join(" "))).toEqual([
    "1 shipment.instructed",
    "2 shipment.shipped",
    "3 shipment.shipped",
  ]);
  // A new subscription starts with the next event.
  expect(lines.filter((line) => line.startsWith("100 "))).toEqual(["100 #3: dhl"]);
});
