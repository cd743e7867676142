/** F9 as operators use it: processes that are killed and started again, against Azurite. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { beforeAll, expect, inject, test, vi } from "vitest";
import { decodeEventBytes, type StoredEvent } from "../../src/core/event.ts";
import { decodeWakeUp } from "../../src/core/wake-up.ts";
import type { Subscription } from "../../src/core/workflow.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { verifyAll } from "../../src/operations/verify.ts";
import { systemClock } from "../../src/system/clock.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { old, subscriptions, workflow } from "./fixtures/replays.ts";
import { runCli, type CliResult } from "./run-cli.ts";

const FIXTURE = fileURLToPath(new URL("fixtures/replays.ts", import.meta.url));
const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
const REASON = ["--actor", "ann", "--reason", "a new partner"];
const BACKFILL = ["backfill", "--subscription", "audit", "--workflow", FIXTURE, ...REASON];
const ORDERS = Array.from({ length: 9 }, (_, index) => `order-${index}`);

let storage: TestStorage;

beforeAll(async () => {
  storage = await connectTestStorage();
  const outbox = createOutbox({ workflow, storage });
  const worker = createWorker({ workflow, subscriptions: [old], storage });
  const fill = async (order: string, index: number): Promise<void> => {
    await outbox.commit(order, () => ({ state: {}, events: eventsOf(index) }));
    await worker.handle(order);
  };
  await Promise.all(ORDERS.map(fill));
}, 120_000);

/** Three to five events, of which one is not for `audit`. */
function eventsOf(index: number): { type: string; data: { n: number } }[] {
  return Array.from({ length: 3 + (index % 3) }, (_, n) => ({ type: n === 1 ? "noise" : "step", data: { n } }));
}

function cli(...args: readonly string[]): Promise<CliResult> {
  return runCli([...args, "--prefix", storage.prefix], inject("azurite"));
}

/** Starts the command and kills it when so many events are in outboxes. */
async function killed(args: readonly string[], events: number): Promise<void> {
  const env = { ...process.env, ORDERED_OUTBOX_CONNECTION_STRING: inject("azurite") };
  const child = spawn(process.execPath, [MAIN, ...args, "--prefix", storage.prefix], { env, stdio: "ignore" });
  const ended = once(child, "exit");
  await vi.waitFor(async () => expect((await storage.orders.scanOutbox(undefined, 10)).entities.length).toBeGreaterThan(events), {
    timeout: 20_000,
    interval: 5,
  });
  child.kill("SIGKILL");
  expect(await ended).toEqual([null, "SIGKILL"]);
}

/** Handles every wake-up that there is. */
async function work(all: readonly Subscription[]): Promise<void> {
  const worker = createWorker({ workflow, subscriptions: all, storage });
  await Promise.all(ORDERS.map((order) => worker.handle(order)));
}

async function archived(subscription: string): Promise<readonly StoredEvent[]> {
  const names: string[] = [];
  for await (const { name } of storage.blobs.list("archive", `${subscription}/`)) names.push(name);
  return Promise.all(names.map(async (name) => decodeEventBytes((await storage.blobs.read("archive", name))!.bytes)));
}

test("a backfill that is killed and repeated: every order in order, exactly once, nobody else", async () => {
  const wanted = ORDERS.reduce((sum, _order, index) => sum + eventsOf(index).length - 1, 0);
  const dry = await cli(...BACKFILL, "--dry-run", "--json");
  expect(dry).toMatchObject({ status: 0 });
  expect(JSON.parse(dry.stdout)).toMatchObject({ outcome: "would-replay", events: wanted, skipped: { unwanted: ORDERS.length } });
  expect((await storage.orders.scanOutbox(undefined, 10)).entities).toEqual([]);
  const mail = await archived("mail");

  await killed(BACKFILL, 3);
  const last = await cli(...BACKFILL, "--json");
  expect(last).toMatchObject({ status: 0 });
  const { outcome, events, before } = JSON.parse(last.stdout) as { outcome: string; events: number; before: number };
  expect({ outcome, all: events + before }).toEqual({ outcome: "done", all: wanted });
  expect(before).toBeGreaterThan(3);

  const { entities } = await storage.orders.scanOutbox(undefined, 10);
  expect(entities).toHaveLength(wanted);
  const texts = (await storage.wakeUps.receive(32, 30_000)).map(({ text }) => decodeWakeUp(text));
  expect(ORDERS).toEqual(expect.arrayContaining(texts));
  await work(subscriptions);
  const own = Map.groupBy(await archived("audit"), ({ orderId }) => String(orderId));
  for (const [index, order] of ORDERS.entries()) {
    const originals = mail.filter((event) => event.orderId === order && event.type === "step");
    expect(originals).toHaveLength(eventsOf(index).length - 1);
    expect(own.get(order)?.map(({ replayOf, replayFor, dataText }) => [replayOf, replayFor, dataText])).toEqual(
      originals.map(({ id, dataText }) => [id, "audit", dataText]),
    );
  }
  expect(await archived("mail")).toEqual(mail);
  expect((await verifyAll({ storage, clock: systemClock })).findings).toEqual([]);

  const again = await cli(...BACKFILL);
  expect(again).toMatchObject({ status: 0, stdout: expect.stringContaining("nothing is replayed twice") });
  expect(again.stdout).toContain("--run");
}, 120_000);

test("a replay of a range, its dry run, and what is refused", async () => {
  const range = ["replay", "--order", "order-2", "--subscription", "mail", "--from", "2", "--to", "4", ...REASON];
  const dry = await cli(...range, "--dry-run");
  expect(dry).toMatchObject({ status: 0, stderr: "" });
  expect(dry.stdout).toMatch(/^order-2 +would-replay +3 +2 +4/m);
  expect((await storage.orders.scanOutbox(undefined, 10)).entities).toEqual([]);
  expect(await cli(...range)).toMatchObject({ status: 0, stdout: expect.stringMatching(/^order-2 +replayed +3 +2 +4/m) });
  await work(subscriptions);
  const events = (await archived("mail")).filter(({ orderId }) => orderId === "order-2");
  expect(events.slice(-3).map(({ replayOf }) => replayOf)).toEqual(events.slice(1, 4).map(({ id }) => id));
  expect(await cli("replay", "--order", "order-2", "--subscription", "audi", "--workflow", FIXTURE, ...REASON)).toMatchObject({
    status: 2,
    stderr: expect.stringContaining("mail, audit"),
  });
  expect(await cli("backfill", "--subscription", "audi", "--workflow", FIXTURE, ...REASON)).toMatchObject({
    status: 2,
    stderr: expect.stringMatching(/audi: the module .* does not have it; its subscriptions: mail, audit; .*deploy it on all workers first/),
  });
  for (const wrong of [
    ["--order", "order-99", "--subscription", "mail"],
    ["--order", "order-2", "--subscription", "mial"],
  ]) {
    const refused = await cli("replay", ...wrong, ...REASON, "--json");
    expect(refused).toMatchObject({ status: 1 });
    expect(JSON.parse(refused.stdout)).toMatchObject({ error: { code: "not-found", hint: expect.stringContaining("--workflow") } });
  }
  const audit = await cli("audit", "list", "--order", "order-2");
  expect(audit.stdout).toMatch(
    / replay +done: 3 events of 1 order, 0 orders failed +ann +mail +order-2 +range-[0-9a-f]{16} +a new partner$/m,
  );
}, 60_000);
