/** The real command, as `npm start` runs it. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { JsonReport } from "../../src/local/report.ts";

const MAIN = fileURLToPath(new URL("../../src/local/main.ts", import.meta.url));
const RUN_TIMEOUT_MS = 120_000;
const KILL_RUN_TIMEOUT_MS = 300_000;

const started: ChildProcess[] = [];

/** In a process group of its own, so that its children can be found when it is gone. */
function start(...args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [MAIN, ...args], { detached: true, stdio: ["ignore", "pipe", "pipe"] });
  started.push(child);
  return child;
}

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

async function ended(child: ChildProcess): Promise<Ended> {
  const [[code], stdout, stderr] = await Promise.all([
    once(child, "close") as Promise<[number | null]>,
    text(child.stdout!),
    text(child.stderr!),
  ]);
  return { code, stdout, stderr };
}

function groupIsGone(child: ChildProcess): boolean {
  try {
    process.kill(-child.pid!, 0);
    return false;
  } catch {
    return true;
  }
}

function report(stdout: string): JsonReport {
  return JSON.parse(stdout.trimEnd().split("\n").at(-1)!) as JsonReport;
}

afterEach(() => {
  for (const child of started.splice(0)) {
    if (!groupIsGone(child)) process.kill(-child.pid!, "SIGKILL");
  }
});

const CLEAN = { duplicates: 0, outOfOrder: 0, missing: 0, unexpected: 0 };

describe("a run", () => {
  test(
    "G2, G3: every event is handled once, in commit order, and no process is left",
    async () => {
      const child = start("--orders", "20", "--seed", "1", "--json");
      const { code, stdout, stderr } = await ended(child);
      expect({ code, stderr }).toMatchObject({ code: 0 });
      expect(stdout.trimEnd().split("\n")).toHaveLength(1);
      const result = report(stdout);
      expect(result).toEqual({
        orders: 20,
        events: result.events,
        handled: result.events,
        duplicates: 0,
        outOfOrder: 0,
        missing: 0,
        unexpected: 0,
        subscriptions: {
          "audit-log": { ...CLEAN, events: result.events, handled: result.events },
          "customer-notifier": {
            ...CLEAN,
            events: expect.any(Number) as number,
            handled: result.subscriptions["customer-notifier"]!.events,
          },
          partner: { ...CLEAN, events: result.events, handled: result.events },
        },
        refused: expect.any(Number) as number,
        seconds: expect.any(Number) as number,
        storageCalls: expect.any(Number) as number,
        storageCallsPerEvent: Math.round((result.storageCalls * 100) / result.events) / 100,
        verified: true,
      });
      expect(result.events).toBeGreaterThan(60);
      expect(result.subscriptions["customer-notifier"]!.events).toBeGreaterThan(20);
      expect(result.refused).toBeGreaterThan(0);
      // What the partner refuses on purpose is counted, and is no error to be looked into.
      expect(stderr).toMatch(/^1?\d\d events to commit and handle/m);
      expect(stderr).toMatch(new RegExp(`backlog 0 · refused ${result.refused} `));
      expect(stderr).not.toMatch("ERROR");
      expect(stderr).toMatch(/^first event handled after [0-9.]+ s$/m);
      expect(stderr).toMatch(new RegExp(`committed ${result.events}/${result.events} · handled ${result.events} · backlog 0`));
      expect(stderr).toMatch(/^blob +PutBlob +blob write +[0-9]+ +[0-9.]+$/m);
      expect(groupIsGone(child)).toBe(true);
    },
    RUN_TIMEOUT_MS,
  );

  test(
    "G3: killed workers lose nothing and repeat no earlier event",
    async () => {
      const child = start("--orders", "60", "--seed", "1", "--workers", "3", "--kill", "--json");
      const { code, stdout, stderr } = await ended(child);
      expect({ code, stderr }).toMatchObject({ code: 0 });
      const result = report(stdout);
      expect(result).toMatchObject({ orders: 60, handled: result.events, outOfOrder: 0, missing: 0, unexpected: 0, verified: true });
      expect(result.kills).toBeGreaterThan(0);
      expect(groupIsGone(child)).toBe(true);
    },
    KILL_RUN_TIMEOUT_MS,
  );
});

describe("--input and --keep", () => {
  let folder: string;
  afterEach(() => rm(folder, { recursive: true }));

  test(
    "G2: a second run of the same file goes on in the same orders and audits its own events",
    async () => {
      folder = await mkdtemp(join(tmpdir(), "keep-test-"));
      const input = join(folder, "events.ndjson");
      const line = (orderId: string, type: string): string =>
        `{"orderId":${JSON.stringify(orderId)},"type":"${type}","time":"2026-01-05T08:00:00+01:00","data":{"n": 12345678901234567890}}\n`;
      const orderIds = ["100", "a/b", "a%2Fb", "Łódź 1"];
      await writeFile(
        input,
        ["order.purchased", "order.approved"].flatMap((type) => orderIds.map((orderId) => line(orderId, type))).join(""),
      );
      for (let run = 1; run <= 2; run++) {
        const { code, stdout, stderr } = await ended(start("--input", input, "--keep", join(folder, "account"), "--json"));
        expect({ code, stderr }).toMatchObject({ code: 0 });
        expect(report(stdout)).toMatchObject({ orders: 4, events: 8, handled: 8, verified: true });
      }
    },
    RUN_TIMEOUT_MS,
  );

  test("a bad line ends it with code 2 before anything is started", async () => {
    folder = await mkdtemp(join(tmpdir(), "input-test-"));
    const input = join(folder, "events.ndjson");
    await writeFile(input, "{}\n");
    const { code, stdout, stderr } = await ended(start("--input", input));
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(`error: ${input}:1: `);
    expect(stderr).not.toMatch("starting");
  });
});

describe("the end of the parent is the end of its children", () => {
  async function startAndWait(): Promise<ChildProcess> {
    const child = start("--orders", "2000");
    let stderr = "";
    child.stderr!.setEncoding("utf8").on("data", (chunk: string) => void (stderr += chunk));
    child.stdout!.resume();
    await vi.waitFor(() => expect(stderr).toMatch("first event handled"), { timeout: RUN_TIMEOUT_MS / 2 });
    return child;
  }

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)(
    "%s, to the parent alone",
    async (signal, exitCode) => {
      const child = await startAndWait();
      child.kill(signal);
      expect(await once(child, "close")).toEqual([exitCode, null]);
      expect(groupIsGone(child)).toBe(true);
    },
    RUN_TIMEOUT_MS,
  );

  test(
    "SIGINT to the whole group, as Ctrl-C sends it",
    async () => {
      const child = await startAndWait();
      process.kill(-child.pid!, "SIGINT");
      expect(await once(child, "close")).toEqual([130, null]);
      expect(groupIsGone(child)).toBe(true);
    },
    RUN_TIMEOUT_MS,
  );

  test(
    "SIGKILL",
    async () => {
      const child = await startAndWait();
      child.kill("SIGKILL");
      await vi.waitFor(() => expect(groupIsGone(child)).toBe(true), { timeout: RUN_TIMEOUT_MS / 2 });
    },
    RUN_TIMEOUT_MS,
  );
});

describe("usage", () => {
  test.each([
    [["--orders", "0"], /whole number from 1/],
    [["--workers", "33"], /whole number from 1 to 32/],
    [["--producers", "1.5"], /whole number/],
    [["--orders", "5", "--input", "x"], /cannot be used with/],
    [["--input", "does-not-exist.ndjson"], /can't read does-not-exist.ndjson/],
    [["--unknown"], /unknown option/],
    [["extra"], /too many arguments/],
  ])("%j is refused with code 2", async (args, message) => {
    const { code, stdout, stderr } = await ended(start(...args));
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(message);
  });

  test("--help", async () => {
    const { code, stdout } = await ended(start("--help"));
    expect(code).toBe(0);
    expect(stdout).toMatch("--kill");
  });
});
