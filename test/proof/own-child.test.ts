/** The proof ends what it has started: when a part throws, and when it is told to stop. */
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test, vi } from "vitest";
import { Emulator } from "../emulator/emulator.ts";
import { OwnChild } from "../support/own-child.ts";
import { Fleet } from "./fleet/fleet.ts";
import { endlessLoad } from "./fleet/load.ts";

const MAIN = fileURLToPath(new URL("main.ts", import.meta.url));
const TIMEOUT_MS = 60_000;
/** Azurite, four workers and two producers. */
const OF_KILLS = 7;

async function childrenOf(parent: number): Promise<readonly number[]> {
  const { stdout } = await promisify(execFile)("ps", ["-A", "-o", "pid=,ppid=,comm="]);
  return stdout
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([, ppid, command]) => Number(ppid) === parent && command !== "ps")
    .map(([pid]) => Number(pid));
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

function scripted(script: string, detached: boolean = false): ChildProcess {
  return spawn(process.execPath, ["-e", script], { stdio: ["ignore", "ignore", "ignore", "ipc"], detached });
}

test("a fleet that is thrown away amid its load leaves no process, frozen ones neither", { timeout: TIMEOUT_MS }, async () => {
  const before = await childrenOf(process.pid);
  let started: readonly number[] = [];
  const part = async (): Promise<never> => {
    await using azurite = await Emulator.start();
    await using fleet = await Fleet.start({
      connectionString: azurite.connectionString,
      load: await endlessLoad(1),
      workers: 2,
      producers: 1,
      concurrency: 1,
      leaseMs: 15_000,
      handlerMs: 1,
      progress: () => undefined,
    });
    const over = Promise.withResolvers<never>();
    fleet.onArrival = () => {
      fleet.workers.find(({ ready }) => ready)!.freeze();
      over.reject(new Error("broken on purpose"));
    };
    await expect(Promise.race([fleet.run(() => false), over.promise])).rejects.toThrow("broken on purpose");
    started = (await childrenOf(process.pid)).filter((pid) => !before.includes(pid));
    return over.promise;
  };
  await expect(part()).rejects.toThrow("broken on purpose");
  expect(started).toHaveLength(4);
  expect(started.filter(isThere)).toEqual([]);
  expect(process.listenerCount("SIGTERM")).toBe(0);
});

test.each([
  ["SIGINT", 130],
  ["SIGTERM", 143],
] as const)("%s ends the proof with %i, and its processes, frozen ones too", { timeout: TIMEOUT_MS }, async (signal, status) => {
  const proof = spawn(process.execPath, [MAIN, "--short", "--only", "kills"], { stdio: "ignore" });
  await using _child = new OwnChild(proof);
  const started = await vi.waitFor(
    async () => {
      const pids = await childrenOf(proof.pid!);
      expect(pids).toHaveLength(OF_KILLS);
      return pids;
    },
    { timeout: TIMEOUT_MS, interval: 100 },
  );
  process.kill(started[1]!, "SIGSTOP");
  proof.kill(signal);
  const [code] = (await once(proof, "exit")) as [number | null];
  expect(code).toBe(status);
  expect(started.filter(isThere)).toEqual([]);
});

test("a process that ends or says nothing is not waited for", async () => {
  await using broken = new OwnChild(scripted("process.exit(3)"));
  await expect(broken.firstMessage("the broken one", TIMEOUT_MS)).rejects.toThrow("the broken one ended before it was up (exit code 3)");
  await using silent = new OwnChild(scripted("setInterval(() => undefined, 1_000)"));
  await expect(silent.firstMessage("the silent one", 50)).rejects.toThrow("the silent one did not start within 0.05 s");
});

test("whatever a process has started ends with its group", async () => {
  const script = 'const { pid } = require("child_process").spawn("sleep", ["600"]); process.send(pid)';
  const child = new OwnChild(scripted(script, true), { isGroup: true });
  const grandchild = (await child.firstMessage("the parent", TIMEOUT_MS)) as number;
  expect(isThere(grandchild)).toBe(true);
  await child[Symbol.asyncDispose]();
  // It is gone once whoever inherits it has noticed.
  await vi.waitFor(async () => {
    const { stdout } = await promisify(execFile)("ps", ["-o", "stat=", "-p", String(grandchild)]).catch(() => ({ stdout: "" }));
    expect(stdout.trim()).toMatch(/^(Z.*)?$/);
  });
});
