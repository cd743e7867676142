/** The commands of operators as real processes, against Azurite. */
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { encodeDeadLetter } from "../../src/core/dead-letter.ts";
import { encodeEvent } from "../../src/core/event.ts";
import { nextEventId, type EventId } from "../../src/core/event-id.ts";
import { eventBlobName } from "../../src/core/names.ts";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { decodePendingState, encodePendingState, freshState, type PendingState } from "../../src/core/pending-event.ts";
import { METRICS, type MetricName } from "../../src/system/metrics.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { steps, workflow } from "../producer/fixtures/workflow.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { runCli, type CliResult } from "./run-cli.ts";

const FIXTURE = fileURLToPath(new URL("fixtures/shipments.ts", import.meta.url));
const HOSTILE = '-x\n<b>"é📦\u001b[2J../a';
const REASON = ["--actor", "ann", "--reason", "carrier is back"];

describe("on an account with trouble", () => {
  let storage: TestStorage;
  const ids = new Map<string, EventId>();

  beforeAll(async () => {
    storage = await connectTestStorage();
    await put("blocked", { status: "blocked", attempts: 33, lastError: "Error: no carrier" });
    await put("blocked-too", { status: "blocked", attempts: 33, lastError: "Error: no carrier" });
    await put(HOSTILE, { status: "blocked", attempts: 1, lastError: "evil\n\u001b[2J</td>" });
    await put("parked", {
      status: "parked",
      attempts: 3,
      nextAttemptMs: Date.now() + 3_600_000,
      waitMs: 3_600_000,
      lastError: "Error: 503",
    });
    await put("waiting", {});
  });

  /** One pending event of `report`, as a worker would leave it. */
  async function put(order: string, state: Partial<PendingState>): Promise<void> {
    const orderId = parseOrderId(order);
    const { events } = await createOutbox({ workflow, storage }).commit(order, steps(1));
    const { id } = events[0]!;
    await storage.orders.deleteOutbox(encodeOrderId(orderId), [id]);
    ids.set(order, id);
    const name = eventBlobName("report", encodeOrderId(orderId), id);
    const head = { id, orderId, sequence: 1, type: "quick", source: "/shipments", time: "2026-01-01T00:00:00.000Z" };
    const bytes = new TextEncoder().encode(encodeEvent(head, "{}"));
    const full: PendingState = { ...freshState(1, 0), ...state };
    await storage.blobs.create("events", name, bytes, encodePendingState(full));
    if (full.status !== "blocked") return;
    const reason = full.lastError ?? "";
    const diedAt = new Date().toISOString();
    const letter = { orderId: order, subscription: "report", id, sequence: 1, type: "quick", reason, attempts: full.attempts, diedAt };
    const index = encodeDeadLetter({ ...letter, policy: "block", history: [{ at: diedAt, starts: full.attempts, error: reason }] });
    await storage.blobs.create("dead", name, index.bytes, index.metadata);
  }

  async function stateOf(order: string): Promise<PendingState | undefined> {
    const name = eventBlobName("report", encodeOrderId(parseOrderId(order)), ids.get(order)!);
    const blob = await storage.blobs.read("events", name);
    return blob && decodePendingState(blob.metadata);
  }

  const cli = (...args: readonly string[]): Promise<CliResult> => {
    const end = args.indexOf("--");
    const at = end < 0 ? args.length : end;
    return runCli([...args.slice(0, at), "--prefix", storage.prefix, ...args.slice(at)], inject("azurite"));
  };

  /** What stdout holds, which must be one JSON document and nothing else. */
  const json = async (...args: readonly string[]): Promise<{ readonly status: number; readonly document: unknown }> => {
    const { status, stdout, stderr } = await cli(...args, "--json");
    for (const line of stderr.split("\n").filter((each) => each !== "")) JSON.parse(line);
    return { status, document: JSON.parse(stdout) };
  };

  test("status, orders list and dead list: as tables and as JSON", async () => {
    const [status, orders, dead] = await Promise.all([cli("status"), cli("orders", "list"), cli("dead", "list")]);
    expect(status).toMatchObject({ status: 0, stderr: "" });
    expect(status.stdout).toMatch(/^report +5 +5 +\S+ +1 +3 +3 +no$/m);
    expect(orders.stdout.split("\n")).toHaveLength(1 + 5 + 1);
    expect(dead.stdout).toMatch(/^ +2 +2 +report +Error: no carrier$/m);
    for (const { stdout } of [status, orders, dead]) expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/);

    expect(await json("orders", "list", "--blocked")).toMatchObject({
      status: 0,
      document: { orders: expect.arrayContaining([expect.objectContaining({ orderId: HOSTILE, lease: "none" })]) },
    });
    expect(await cli("orders", "list", "--blocked", "--parked")).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("cannot be used with"),
    });
  });

  test("explain says why, gives the command, and its status tells whether a human is needed", async () => {
    const blocked = await cli("explain", "blocked");
    expect(blocked).toMatchObject({ status: 4, stdout: expect.stringMatching(/^blocked-dead-letter: .*Error: no carrier/) });
    const command = `ordered-outbox dead redrive --reason 'cause fixed' --event ${ids.get("blocked")} --subscription report -- blocked`;
    expect(blocked.stdout).toContain(`  ${command}\n`);
    expect(await json("explain", "waiting", "--workflow", FIXTURE)).toMatchObject({
      status: 0,
      document: { verdict: { code: "wake-up-missing", command: "ordered-outbox wake -- waiting" }, stuck: false },
    });
  });

  test("a failure with --json is one JSON document too; an unknown order is one", async () => {
    expect(await json("verify", "nobody")).toEqual({
      status: 1,
      document: {
        error: { code: "not-found", message: expect.stringContaining("not-found: there is no order nobody, and no trace of one") },
      },
    });
    expect(await json("dead", "discard", "--pending", ...REASON)).toMatchObject({
      status: 2,
      document: { error: { code: "invalid-option" } },
    });
    expect(await json("dead", "discard", "--pending", "--subscription", "report", "--type", "quick", ...REASON)).toMatchObject({
      status: 2,
    });
    expect(await json("dead", "discard", "--pending", "--subscription", "report", "--dry-run", ...REASON, "waiting")).toMatchObject({
      status: 0,
      document: { results: [{ orderId: "waiting", outcome: "would-record" }], left: 0 },
    });
  });

  test("an order that begins with - and holds line breaks is handled after -- (C23)", async () => {
    const shown = await cli("orders", "show", "--", HOSTILE);
    expect(shown).toMatchObject({ status: 0, stdout: expect.stringMatching(/Dead +1 +2026/) });
    expect(shown.stdout).not.toContain("\u001b");
    expect(await cli("dead", "show", "--json", "--", HOSTILE)).toMatchObject({ status: 0 });
    expect(await cli("dead", "discard", ...REASON, "--", HOSTILE)).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("1 of 1 in force."),
    });
    expect((await stateOf(HOSTILE))?.decision).toMatchObject({ action: "discard", actor: "ann", reason: "carrier is back" });
  });

  test("nothing to decide about: what has the next step (F4)", async () => {
    expect(await cli("dead", "redrive", "--error", "no such error", ...REASON)).toMatchObject({
      status: 0,
      stdout: "No dead letter matches: `ordered-outbox dead list` has those there are.\n",
    });
    expect(await cli("dead", "discard", "--pending", "--subscription", "billing", ...REASON)).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("names a subscription billing: known are report"),
    });
  });

  test("redrive: dry run, then one, then many; twice is fine, against another's decision is not (F4)", async () => {
    expect(await cli("dead", "redrive", "blocked", "--dry-run", ...REASON)).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("would-record"),
    });
    expect((await stateOf("blocked"))?.decision).toBeUndefined();

    expect(await cli("dead", "redrive", "blocked", ...REASON)).toMatchObject({ status: 0 });
    const all = await json("dead", "redrive", "--error", "NO CARRIER", ...REASON);
    expect(all).toMatchObject({ status: 0, document: { left: 0 } });
    expect((all.document as { results: { outcome: string }[] }).results.map(({ outcome }) => outcome).sort()).toEqual([
      "already-decided",
      "recorded",
    ]);

    const loser = await cli("dead", "discard", "blocked", "--actor", "bob", "--reason", "gone");
    expect(loser).toMatchObject({
      status: 1,
      stdout: expect.stringMatching(/already-decided +ann decided at \S+ to redrive it: carrier is back/),
    });
    const texts = (await storage.wakeUps.receive(32, 1_000)).map(({ text }) => text);
    expect(texts).toEqual(expect.arrayContaining(['"blocked"', '"blocked-too"']));
  });

  test("pause, resume, wake, unlock", async () => {
    expect(await cli("pause", "report", "parked", ...REASON)).toMatchObject({ status: 0, stdout: expect.stringContaining("is paused") });
    expect(await cli("explain", "parked")).toMatchObject({
      status: 4,
      stdout: expect.stringMatching(/^waiting-retry: .*, and paused by ann/),
    });
    expect(await json("resume", "report", "parked", ...REASON)).toEqual({ status: 0, document: { outcome: "resumed", woken: 1 } });
    expect(await json("wake", "waiting")).toEqual({ status: 0, document: { orderId: "waiting", outcome: "woken" } });

    const order = encodeOrderId(parseOrderId("waiting"));
    const { etag } = await storage.leases.create(order);
    await storage.leases.acquire(order, { id: "6b5a6f0e-9e0b-4c57-a4bb-2f0cbb3ad0e6", durationMs: 60_000, etag });
    expect(await cli("unlock", "waiting", ...REASON)).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("may run a second time"),
    });
    expect(await storage.leases.read(order)).toMatchObject({ state: "taken", breaking: true });
  });

  test("what nobody knows is neither paused nor woken nor shown: exit 1, with the next step", async () => {
    const pause = await json("pause", "reprot", ...REASON);
    expect(pause).toMatchObject({ status: 1, document: { error: { code: "not-found" } } });
    expect(JSON.stringify(pause.document)).toMatch(/names a subscription reprot: known are report","hint":"to pause it .* use --force/);
    expect(await json("pause", "billing", "--workflow", FIXTURE, "--dry-run", ...REASON)).toMatchObject({ status: 1 });
    expect(await json("pause", "reprot", "--force", "--dry-run", ...REASON)).toMatchObject({
      status: 0,
      document: { outcome: "would-pause" },
    });

    expect(await json("wake", "nobody")).toMatchObject({
      status: 1,
      document: { error: { code: "not-found", hint: expect.stringContaining("use --force") } },
    });
    expect(await json("wake", "nobody", "--dry-run", "--force")).toMatchObject({ status: 0, document: { outcome: "would-wake" } });
    expect(await json("unlock", "nobody", ...REASON)).toMatchObject({ status: 1, document: { error: { code: "not-found" } } });
    expect(await json("orders", "show", "nobody")).toMatchObject({ status: 1, document: { error: { code: "not-found" } } });
  });

  test("an event that no worker has relayed is seen by status and orders list", async () => {
    await createOutbox({ workflow, storage }).commit("unrelayed", steps(1));
    expect((await cli("status")).stdout).toMatch(/^Not relayed yet: 1 event of 1 order, the oldest for \d+s\.$/m);
    expect((await cli("status", "--max-pages", "0")).stdout).toContain("stopped early");
    const listed = await json("orders", "list", "--unrelayed");
    expect(listed).toMatchObject({
      status: 0,
      document: { complete: true, orders: [{ orderId: "unrelayed", head: { state: "unrelayed" } }] },
    });
    expect((await cli("orders", "list")).stdout).toMatch(/^unrelayed +- +1 +- +\d+s +unrelayed /m);
  });

  test("verify: 4 for damage; sweep, reconcile, cleanup and metrics answer", async () => {
    const name = eventBlobName("report", encodeOrderId(parseOrderId("waiting")), nextEventId(undefined, Date.now(), Math.random));
    await storage.blobs.create("archive", name, new Uint8Array(), { sequence: "9", previous: "8" });
    expect(await cli("verify", "waiting")).toMatchObject({ status: 4, stdout: expect.stringContaining("beyond-progress") });
    expect(await cli("verify", "parked")).toMatchObject({ status: 0, stdout: "1 order verified: sound.\n" });
    expect(await json("verify")).toMatchObject({ status: 4, document: { orders: 6, sound: false } });

    expect(await json("sweep")).toMatchObject({ status: 0, document: { woken: expect.any(Number) } });
    expect(await json("sweep", "--dry-run")).toMatchObject({ status: 0, document: { woken: expect.any(Number), dryRun: true } });
    expect(await json("reconcile")).toMatchObject({ status: 0, document: { complete: true, dryRun: false } });
    expect(await json("cleanup", "--reason", "space")).toMatchObject({ status: 0, document: { removed: { archive: 0 }, dryRun: false } });
    const records = await Array.fromAsync(storage.blobs.list("audit", ""), (blob) => storage.blobs.read("audit", blob.name));
    const texts = records.map((record) => new TextDecoder().decode(record!.bytes)).filter((text) => text.includes('"cleanup"'));
    expect(texts.map((text) => JSON.parse(text) as unknown)).toMatchObject([
      { action: "cleanup", reason: "space", outcome: "intended" },
      { action: "cleanup", reason: "space", outcome: expect.stringMatching(/^removed .*, 0 archive blobs$/) },
    ]);
    expect(await cli("cleanup", "--dry-run", "--archive-days", "1")).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("0 archive blobs"),
    });
    const { stdout: gauges } = await cli("metrics");
    expect(gauges).toContain('outbox_pending_count{subscription="report"} 5');
    expect(gauges).toMatch(/^outbox_backlog_orders 5$/m);
    const printed = [...gauges.matchAll(/^# TYPE (\S+) gauge$/gm)].map(([, each]) => each!);
    // The table is not looked through (see `metrics`), so what a reconcile measures is not among them.
    const gaugesOfSweep = Object.keys(METRICS).filter(
      (each) => METRICS[each as MetricName].kind === "gauge" && each !== "outbox_unrelayed_oldest_age",
    );
    expect(printed).toEqual(gaugesOfSweep);
  });

  test.each([
    { name: "no reason", args: ["dead", "redrive", "blocked"], says: "required option '--reason <text>'" },
    { name: "neither order nor filter", args: ["dead", "discard", ...REASON], says: "name an order, a filter, or --all" },
    { name: "order and filter", args: ["dead", "discard", "blocked", "--error", "x", ...REASON], says: "--error is for many orders" },
    { name: "no span", args: ["dead", "list", "--older-than", "yesterday"], says: "A time span like 90s" },
    { name: "no event id", args: ["dead", "show", "blocked", "--event", "7"], says: "an event id (ULID) is needed" },
    { name: "no order id", args: ["wake", ""], says: "an OrderId has at least one character" },
    { name: "no subscription name", args: ["pause", "A B", ...REASON], says: "subscription name" },
    { name: "no such limit", args: ["dead", "redrive", "--all", "--limit", "0", ...REASON], says: "from 1 to 1000000000" },
  ])("$name: exit 2", async ({ args, says }) => {
    expect(await cli(...args)).toMatchObject({ status: 2, stdout: "", stderr: expect.stringContaining(says) });
  });

  test("what is not there: exit 1, without the advice for a missing table", async () => {
    const { status, stdout, stderr } = await cli("dead", "show", "nobody");
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toContain("order nobody has no such dead letter");
    expect(stderr).not.toContain("setup");
  });
});

test("a subscription that is only deployed yet is paused by the module that has it", async () => {
  const { prefix } = await connectTestStorage();
  const pause = ["pause", "report", "--prefix", prefix, "--json", ...REASON];
  expect(await runCli(pause, inject("azurite"))).toMatchObject({
    status: 1,
    stdout: expect.stringMatching(/report: none is known",\s*"hint": ?"to/),
  });
  const { status, stdout } = await runCli([...pause, "--workflow", FIXTURE], inject("azurite"));
  expect({ status, document: JSON.parse(stdout) as unknown }).toMatchObject({ status: 0, document: { outcome: "paused" } });
});

test("help tells the commands and the exit statuses", async () => {
  const { status, stdout } = await runCli(["--help"], "");
  expect(status).toBe(0);
  for (const command of [
    "status",
    "orders",
    "explain",
    "dead",
    "pause",
    "resume",
    "wake",
    "unlock",
    "verify",
    "sweep",
    "reconcile",
    "cleanup",
    "metrics",
  ]) {
    expect(stdout).toMatch(new RegExp(`^  ${command} `, "m"));
  }
  expect(stdout).toContain("4 found something that needs a human");
});
