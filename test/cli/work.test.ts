/** `ordered-outbox work` as a process of its own, against Azurite. */
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterEach, beforeAll, describe, expect, inject, test } from "vitest";
import { QueueServiceClient } from "@azure/storage-queue";
import { createOutbox, type Outbox } from "../../src/producer/outbox.ts";
import { defineSubscription, type AnyWorkflow } from "../../src/core/workflow.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { workflow } from "./fixtures/shipments.ts";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
const FIXTURE = fileURLToPath(new URL("fixtures/shipments.ts", import.meta.url));

interface Run {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  /** Lines of the handlers, one an event. */
  readonly events: AsyncIterator<string>;
  /** Resolves to the entry of the log with this message. */
  logged(message: string): Promise<Record<string, unknown>>;
  /** Exit status and all that was written. */
  ended(): Promise<{ readonly status: number | null; readonly stdout: string; readonly stderr: string }>;
}

const running = new Set<Run["child"]>();

afterEach(async () => {
  for (const child of running) {
    child.kill("SIGKILL");
    await once(child, "close");
  }
});

function run(args: readonly string[], environment: Readonly<Record<string, string>> = {}, directory?: string): Run {
  const { ORDERED_OUTBOX_CONNECTION_STRING: _a, ORDERED_OUTBOX_ACCOUNT: _b, AzureWebJobsStorage: _c, ...inherited } = process.env;
  const child = spawn(process.execPath, [MAIN, ...args], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { ...inherited, NO_COLOR: "1", ...environment },
    ...(directory === undefined ? {} : { cwd: directory }),
  });
  running.add(child);
  const closed = once(child, "close") as Promise<[number | null]>;
  void closed.finally(() => running.delete(child));
  const stdout: string[] = [];
  const stderr: string[] = [];
  const waiting = new Set<() => void>();
  let stderrEnded = false;
  createInterface({ input: child.stdout }).on("line", (line) => stdout.push(line));
  createInterface({ input: child.stderr })
    .on("line", (line) => {
      stderr.push(line);
      for (const look of waiting) look();
    })
    .on("close", () => {
      stderrEnded = true;
      for (const look of waiting) look();
    });
  return {
    child,
    events: createInterface({ input: child.stdout })[Symbol.asyncIterator](),
    logged: (message) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const found = stderr.map((line) => JSON.parse(line) as Record<string, unknown>).find((entry) => entry["message"] === message);
          if (found !== undefined) resolve(found);
          else if (stderrEnded) reject(new Error(`the process ended before "${message}":\n${stderr.join("\n")}`));
          else return;
          waiting.delete(look);
        };
        waiting.add(look);
        look();
      }),
    async ended() {
      const [status] = await closed;
      return { status, stdout: stdout.join("\n"), stderr: stderr.join("\n") };
    },
  };
}

async function nextEvent({ events }: Run): Promise<unknown> {
  return JSON.parse(((await events.next()) as IteratorYieldResult<string>).value);
}

describe("handling events", () => {
  let storage: TestStorage;
  let outbox: Outbox<AnyWorkflow>;

  beforeAll(async () => {
    storage = await connectTestStorage();
    outbox = createOutbox({ workflow, storage });
  });

  const work = (...args: readonly string[]): Run =>
    run(["work", "--workflow", FIXTURE, "--prefix", storage.prefix, "--json", ...args], {
      ORDERED_OUTBOX_CONNECTION_STRING: inject("azurite"),
    });

  const commit = (orderId: string, ...types: readonly string[]): Promise<unknown> =>
    outbox.commit(orderId, () => ({ state: {}, events: types.map((type) => ({ type, data: {} })) }));

  test("committed events are handled in order, whatever the order is called; SIGTERM ends it with 0 (C23, C32, G2)", async () => {
    const orderIds = ["100", "é📦", `<a>&"`, 'o-1\n{"level":"error","message":"forged"}\u001b[2J'];
    for (const orderId of orderIds) await commit(orderId, "quick", "quick");
    const worker = work("--health-port", "0");
    const { healthPort } = await worker.logged("the worker runs");
    for (const orderId of orderIds) await commit(orderId, "quick");
    const seen = [];
    for (let count = 0; count < 3 * orderIds.length; count++) seen.push(await nextEvent(worker));

    for (const orderId of orderIds) {
      expect(seen.filter((event) => (event as { orderId: string }).orderId === orderId)).toEqual(
        [1, 2, 3].map((sequence) => ({ orderId, sequence, type: "quick" })),
      );
    }
    for (const path of ["live", "ready"]) {
      const answer = await fetch(`http://127.0.0.1:${String(healthPort)}/health/${path}`);
      expect([answer.status, await answer.json()]).toEqual([200, expect.objectContaining({ healthy: true, state: "running" })]);
    }

    worker.child.kill("SIGTERM");
    const { status, stderr } = await worker.ended();
    expect(status).toBe(0);
    for (const line of stderr.split("\n"))
      expect(JSON.parse(line)).toMatchObject({ time: expect.any(String), level: expect.stringMatching(/^(?:info|warn)$/) });
  });

  test.each(["SIGTERM", "SIGINT"] as const)(
    "%s lets a running handler finish: exit 0, nothing left, no later event started (C32)",
    async (signal) => {
      await commit(`finishing-${signal}`, "told", "quick");
      const worker = work();
      expect(await nextEvent(worker)).toMatchObject({ type: "told" });
      worker.child.kill(signal);
      expect(await worker.logged("the worker stops: running handlers may finish, a second signal aborts them")).toMatchObject({ signal });
      worker.child.stdin.write("go on\n");

      const { status, stdout } = await worker.ended();
      expect(status).toBe(0);
      expect(stdout.split("\n")).toHaveLength(1);
      expect(await worker.logged("the worker has stopped")).toMatchObject({ handled: 1, aborted: 0, left: 0 });

      const next = work();
      expect(await nextEvent(next)).toMatchObject({ sequence: 2, type: "quick" });
    },
  );

  test.each([
    { type: "obedient", left: 0 },
    { type: "stuck", left: 1 },
  ])("a second SIGTERM aborts at once: exit 3, with a handler that is $type (C32)", async ({ type, left }) => {
    // On its own: the order of an aborted handler is taken by the next worker.
    const alone = await connectTestStorage();
    await createOutbox({ workflow, storage: alone }).commit(`aborted-${type}`, () => ({ state: {}, events: [{ type, data: {} }] }));
    const worker = work("--prefix", alone.prefix);
    expect(await nextEvent(worker)).toMatchObject({ type });
    worker.child.kill("SIGTERM");
    await worker.logged("the worker stops: running handlers may finish, a second signal aborts them");
    worker.child.kill("SIGTERM");

    expect((await worker.ended()).status).toBe(3);
    expect(await worker.logged("the worker has stopped")).toMatchObject({ aborted: 1, left });
  });

  test("G5: an event whose wake-ups are all lost is found by the sweep", async () => {
    const own = await connectTestStorage();
    await createOutbox({ workflow, storage: own }).commit("100", () => ({ state: {}, events: [{ type: "quick", data: {} }] }));
    const failing = defineSubscription(workflow, {
      name: "report",
      retry: { shortStarts: 1, longDelayMs: 1_000 },
      handle: () => Promise.reject(new Error("not yet")),
    });
    await createWorker({ workflow, subscriptions: [failing], storage: own }).handle("100");
    // Hidden messages too, as `receive` could not.
    const queues = QueueServiceClient.fromConnectionString(inject("azurite"));
    await queues.getQueueClient(`${own.prefix}-wake-ups`).clearMessages();

    const worker = work("--prefix", own.prefix, "--sweep-interval", "1");
    expect(await nextEvent(worker)).toEqual({ orderId: "100", sequence: 1, type: "quick" });
    expect(await worker.logged("the sweep woke orders that nobody handled")).toMatchObject({ woken: 1 });
  });

  test("C32: a sweep that waits for storage does not delay the stop", async () => {
    const listed = Promise.withResolvers<void>();
    await using blobService = createServer((request, response) => {
      // Listings never get an answer; the rest, which is the check of the account, is refused.
      if (request.url?.includes("comp=list") === true) listed.resolve();
      else response.writeHead(403).end();
    });
    blobService.listen(0, "127.0.0.1");
    await once(blobService, "listening");
    const { port } = blobService.address() as AddressInfo;
    const connectionString = inject("azurite").replace(/BlobEndpoint=[^;]+/, `BlobEndpoint=http://127.0.0.1:${port}/devstoreaccount1`);
    const worker = run(["work", "--workflow", FIXTURE, "--prefix", storage.prefix, "--json", "--sweep-interval", "1"], {
      ORDERED_OUTBOX_CONNECTION_STRING: connectionString,
    });
    await listed.promise;
    const before = performance.now();
    worker.child.kill("SIGTERM");
    expect((await worker.ended()).status).toBe(0);
    expect(performance.now() - before).toBeLessThan(5_000);
    blobService.closeAllConnections();
  });

  test("a signal while it still starts: exit 0, nothing was started (C32)", async () => {
    const worker = run(["work", "--workflow", fileURLToPath(new URL("fixtures/hanging.mjs", import.meta.url))]);
    expect(await worker.events.next()).toMatchObject({ value: "loading" });
    worker.child.kill("SIGTERM");

    expect((await worker.ended()).status).toBe(0);
  });

  test("a health port that is taken ends it with 1", async () => {
    const first = work("--health-port", "0");
    const { healthPort } = await first.logged("the worker runs");
    const { status, stderr } = await work("--health-port", String(healthPort)).ended();

    expect(status).toBe(1);
    expect(stderr).toContain("EADDRINUSE");
  });

  test("the workflow module is found from the working directory, whatever it is called", async () => {
    const directory = await mkdtemp(join(tmpdir(), "work-"));
    try {
      await copyFile(fileURLToPath(new URL("fixtures/plain-workflow.mjs", import.meta.url)), join(directory, "my #1 é.mjs"));
      const worker = run(
        ["work", "--workflow", "my #1 é.mjs", "--prefix", storage.prefix, "--json"],
        { AzureWebJobsStorage: inject("azurite") },
        directory,
      );
      expect(await worker.logged("the worker runs")).toMatchObject({ workflow: "plain", subscriptions: 1 });
      worker.child.kill("SIGTERM");
      expect((await worker.ended()).status).toBe(0);
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});

describe("what is wrong is said, with an exit status", () => {
  const SECRET = "c2VjcmV0LWtleS1vZi10aGUtYWNjb3VudA==";

  test("a setting that the module refuses: named, with a hint that leads to it", async () => {
    const directory = await mkdtemp(join(tmpdir(), "bad-setting-"));
    try {
      const index = new URL("../../src/index.ts", import.meta.url).href;
      await writeFile(
        join(directory, "module.mjs"),
        `import { webhooksFromSettings } from ${JSON.stringify(index)}; export { workflow } from ${JSON.stringify(pathToFileURL(FIXTURE).href)};
         export const subscriptions = webhooksFromSettings({ name: "w", events: {} }, process.env);`,
      );
      const settings = {
        ORDERED_OUTBOX_WEBHOOK_PARTNER_URL: "https://127.0.0.1/",
        ORDERED_OUTBOX_WEBHOOK_PARTNER_SECRET: `whsec_${SECRET}`,
      };
      const { status, stderr } = await run(["work", "--workflow", "./module.mjs"], settings, directory).ended();
      expect(status).toBe(2);
      expect(stderr).toContain("setting ORDERED_OUTBOX_WEBHOOK_PARTNER_ALLOW_PRIVATE_ADDRESSES");
      expect(stderr).toContain("the README describes the settings of webhooks");
      expect(stderr).not.toContain("--help");
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  const account = (port: number): Readonly<Record<string, string>> => ({
    ORDERED_OUTBOX_CONNECTION_STRING: `DefaultEndpointsProtocol=http;AccountName=a;AccountKey=${SECRET};${["Blob", "Queue", "Table"].map((service) => `${service}Endpoint=http://127.0.0.1:${port}/a`).join(";")}`,
  });

  test.each([
    { name: "no such module", args: ["work", "--workflow", "./missing.mjs"], says: "workflow module ./missing.mjs can't be loaded" },
    { name: "no such package", args: ["work", "--workflow", "missing-package"], says: "workflow module missing-package can't be loaded" },
    { name: "a module without workflow", args: ["work", "--workflow", "zod"], says: "does not export `workflow`" },
    { name: "no module", args: ["work"], says: "required option '--workflow <module>' not specified" },
    { name: "not a number", args: ["work", "--workflow", FIXTURE, "--concurrency", "1e3"], says: "argument '1e3' is invalid" },
    { name: "out of bounds", args: ["work", "--workflow", FIXTURE, "--concurrency", "257"], says: "from 1 to 256" },
    { name: "no such port", args: ["work", "--workflow", FIXTURE, "--health-port", "65536"], says: "from 0 to 65535" },
    {
      name: "a sweep interval without a schedule",
      args: ["work", "--workflow", FIXTURE, "--no-schedule", "--sweep-interval", "1"],
      says: "cannot be used with",
    },
    {
      name: "an interval that is none",
      args: ["work", "--workflow", FIXTURE, "--sweep-interval", "0"],
      says: "from 1s to 1h",
    },
    { name: "a bad prefix", args: ["work", "--workflow", FIXTURE, "--prefix", "A_b"], says: "prefix", azurite: true },
    { name: "no account", args: ["work", "--workflow", FIXTURE], says: "no storage account" },
    {
      name: "two accounts",
      args: ["work", "--workflow", FIXTURE, "--account", "abc", "--connection-string-env", "X"],
      says: "exclude each other",
    },
    { name: "no such command", args: ["toil"], says: "unknown command 'toil'" },
    {
      name: "no such option",
      args: ["work", "--workflow", FIXTURE, "--connection-string", "x"],
      says: "unknown option '--connection-string'",
    },
  ])("$name: exit 2", async ({ args, says, azurite }) => {
    const { status, stderr } = await run(args, azurite === true ? { ORDERED_OUTBOX_CONNECTION_STRING: inject("azurite") } : {}).ended();

    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining(says) });
  });

  test.each([
    { name: "nonsense", environment: { ORDERED_OUTBOX_CONNECTION_STRING: `nonsense;AccountKey=${SECRET}` }, status: 2 },
    { name: "an account that can't be reached", environment: account(1), status: 1 },
  ])("a connection string is never printed: $name", async ({ environment, status }) => {
    const result = await run(["work", "--workflow", FIXTURE, "--json", "--verbose"], environment).ended();

    expect(result.status).toBe(status);
    expect(result.stderr).not.toBe("");
    expect(result.stderr + result.stdout).not.toContain(SECRET);
  });

  test("help and version: exit 0", async () => {
    const help = await run(["work", "--help"]).ended();
    expect(help).toMatchObject({ status: 0, stdout: expect.stringContaining("--workflow <module>") });
    const { version } = JSON.parse(await readFile(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
    expect(await run(["--version"]).ended()).toMatchObject({ status: 0, stdout: version });
  });
});
