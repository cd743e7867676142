import { metrics } from "@opentelemetry/api";
import {
  AggregationTemporality,
  DataPointType,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
  type MetricData,
} from "@opentelemetry/sdk-metrics";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createReconciler } from "../../src/operations/reconcile.ts";
import { createSweeper } from "../../src/operations/sweep.ts";
import { METRICS, recordStorageCall, workerMetrics, type MetricName } from "../../src/system/metrics.ts";
import { connectTestStorage } from "../support/azurite-storage.ts";
import { OutboxError } from "../../src/core/errors.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { eventTimeMs } from "../../src/core/event-time.ts";
import { eventId, failure, transaction } from "../contract/harness.ts";
import { blobName, putPending } from "./maintenance-support.ts";
import { key, Scene } from "../worker/round-support.ts";
import { sweepScene } from "./sweep-support.ts";

/** Far away: the tests collect by hand. */
const NEVER_MS = 2_000_000_000;

let exporter: InMemoryMetricExporter;
let provider: MeterProvider;

beforeEach(() => {
  exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: NEVER_MS });
  provider = new MeterProvider({ readers: [reader] });
  metrics.setGlobalMeterProvider(provider);
});

afterEach(async () => {
  metrics.disable();
  await provider.shutdown();
});

async function collected(): Promise<readonly MetricData[]> {
  exporter.reset();
  await provider.forceFlush();
  return exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics));
}

/** Values of a metric by its attributes, in JSON. */
async function valuesOf(name: MetricName): Promise<Readonly<Record<string, unknown>>> {
  const points = (await collected()).find(({ descriptor }) => descriptor.name === name)?.dataPoints ?? [];
  return Object.fromEntries(points.map(({ attributes, value }) => [JSON.stringify(attributes), value]));
}

describe("what workers report", () => {
  const attempt = { subscription: "mail", type: "instructed", durationMs: 250 } as const;
  const attributes = '{"subscription":"mail","type":"instructed"}';

  it("attempts, successes and failures by subscription and type", async () => {
    workerMetrics.attemptEnded({ ...attempt, outcome: "failed" });
    workerMetrics.attemptEnded({ ...attempt, outcome: "handled" });
    workerMetrics.attemptEnded({ ...attempt, outcome: "dead" });
    expect(await valuesOf("outbox_attempts_total")).toEqual({ [attributes]: 3 });
    expect(await valuesOf("outbox_publish_success_total")).toEqual({ [attributes]: 1 });
    expect(await valuesOf("outbox_publish_failure_total")).toEqual({ [attributes]: 2 });
    expect(await valuesOf("outbox_dead_total")).toEqual({});
  });

  it("the handler's time in seconds", async () => {
    workerMetrics.attemptEnded({ ...attempt, outcome: "handled" });
    expect(await valuesOf("outbox_handler_duration")).toMatchObject({ [attributes]: { count: 1, sum: 0.25 } });
  });

  it("dead letters", async () => {
    workerMetrics.eventDied({ subscription: "mail" });
    expect(await valuesOf("outbox_dead_total")).toEqual({ '{"subscription":"mail"}': 1 });
  });

  it("W3: a gap, of the order and of a stream, once a round, with an error in the log", async () => {
    const scene = new Scene();
    const subscriptions = [scene.subscription("audit"), scene.subscription("mail")];
    await scene.commit("o-1", [1, 2, 3]);
    scene.onHandle = (entry) => {
      if (entry === "audit E1") throw new Error("leave it pending");
    };
    const errors: string[] = [];
    const logger = { ...silentLogger, error: (message: string) => void errors.push(message) };
    await scene.worker(subscriptions).handle("o-1");
    scene.storage.deleteBlob("events", `audit/o-1/${scene.ids("events")[1]}.json`);
    await scene.commit("o-1", [4, 5]);
    scene.storage.deleteRow(key("o-1"), scene.outboxRows()[0]!);
    await scene.worker(subscriptions, { logger }).handle("o-1");
    expect(errors).toEqual([
      "event 4 is missing or unreadable: outbox, pending events and progress do not have it. Nothing after it runs.",
      "event 2 of audit is missing from its pending events. Nothing after it runs.",
    ]);
    expect(await valuesOf("outbox_gap_total")).toEqual({ "{}": 1 });
  });

  it("wake-ups without work: rounds that found nothing, not those that handled something or could not look", async () => {
    workerMetrics.roundEnded({ status: "done", handled: 0 });
    workerMetrics.roundEnded({ status: "done", handled: 2 });
    workerMetrics.roundEnded({ status: "taken", handled: 0 });
    workerMetrics.roundEnded({ status: "left", handled: 0 });
    workerMetrics.roundEnded({ status: "joined", handled: 0 });
    expect(await valuesOf("outbox_wakeups_without_work_total")).toEqual({ "{}": 1 });
  });

  it("go to the provider of the day, and nowhere without one", async () => {
    workerMetrics.eventDied({ subscription: "mail" });
    metrics.disable();
    workerMetrics.eventDied({ subscription: "mail" });
    metrics.setGlobalMeterProvider(provider);
    workerMetrics.eventDied({ subscription: "mail" });
    expect(await valuesOf("outbox_dead_total")).toEqual({ '{"subscription":"mail"}': 2 });
  });
});

describe("§7: what the sweep reports", () => {
  it("figures by subscription, set to 0 when there is nothing left, and its heartbeat", async () => {
    const { clock, storage, sweeper } = sweepScene();
    await putPending(storage, "o-1", { state: { status: "parked", nextAttemptMs: clock.now() + 1e6 } });
    await putPending(storage, "o-2", { state: { status: "blocked" } });
    storage.putBlob("dead", blobName("o-2"), new Uint8Array());
    clock.setNow(eventTimeMs(eventId(1)) + 1_500);
    await sweeper.sweep();
    const mail = '{"subscription":"mail"}';
    expect(await valuesOf("outbox_pending_count")).toEqual({ [mail]: 2 });
    expect(await valuesOf("outbox_parked_count")).toEqual({ [mail]: 1 });
    expect(await valuesOf("outbox_blocked_count")).toEqual({ [mail]: 1 });
    expect(await valuesOf("outbox_dead_count")).toEqual({ [mail]: 1 });
    expect(await valuesOf("outbox_oldest_age")).toEqual({ [mail]: 1.5 });
    expect(await valuesOf("outbox_backlog_orders")).toEqual({ "{}": 2 });
    for (const name of [blobName("o-1"), blobName("o-2")]) storage.deleteBlob("events", name);
    storage.deleteBlob("dead", blobName("o-2"));
    await sweeper.sweep();
    expect(await valuesOf("outbox_pending_count")).toEqual({ [mail]: 0 });
    expect(await valuesOf("outbox_dead_count")).toEqual({ [mail]: 0 });
    expect(await valuesOf("outbox_backlog_orders")).toEqual({ "{}": 0 });
    expect(await valuesOf("outbox_sweep_total")).toEqual({ "{}": 2 });
  });

  it("figures also while the queue is down, but no heartbeat", async () => {
    const { storage, sweeper } = sweepScene();
    await putPending(storage, "o-1");
    storage.onCall = ({ port }) => {
      if (port === "wakeUps") throw new OutboxError("unavailable", "the queue is down");
    };
    await failure(sweeper.sweep(), "unavailable");
    expect(await valuesOf("outbox_pending_count")).toEqual({ '{"subscription":"mail"}': 1 });
    expect(await valuesOf("outbox_sweep_total")).toEqual({});
  });
});

describe("what the reconcile reports", () => {
  it("C4: the age of the oldest event that nobody relayed, also while the queue is down, and 0 when there is none any more", async () => {
    const { clock, storage } = sweepScene();
    const reconciler = createReconciler({ storage, clock });
    await storage.orders.commit(transaction(key("o-2")));
    await clock.advance(301_500);
    await storage.orders.commit(transaction(key("o-1")));
    storage.onCall = ({ port }) => {
      if (port === "wakeUps") throw new OutboxError("unavailable", "the queue is down");
    };
    await failure(reconciler.reconcile(), "unavailable");
    expect(await valuesOf("outbox_unrelayed_oldest_age")).toEqual({ "{}": 301.5 });
    storage.onCall = undefined;
    for (const order of ["o-1", "o-2"]) await storage.orders.deleteOutbox(key(order), [eventId(1)]);
    await reconciler.reconcile();
    expect(await valuesOf("outbox_unrelayed_oldest_age")).toEqual({ "{}": 0 });
  });
});

describe("METRICS", () => {
  it("§8: every storage call is counted with its service, operation and price class", async () => {
    const storage = await connectTestStorage({ onCall: recordStorageCall });
    await createSweeper({ storage }).sweep();
    expect(await valuesOf("outbox_storage_calls_total")).toEqual({
      '{"service":"blob","operation":"ListBlobs","price_class":"blob list"}': 2,
      '{"service":"table","operation":"QueryEntities","price_class":"table"}': 1,
    });
  });

  it("names, kinds, units, descriptions and attributes are those of the table", async () => {
    const { storage, sweeper } = sweepScene();
    await putPending(storage, "o-1");
    await sweeper.sweep();
    await createReconciler({ storage }).reconcile();
    workerMetrics.attemptEnded({ subscription: "mail", type: "t", outcome: "handled", durationMs: 1 });
    workerMetrics.attemptEnded({ subscription: "mail", type: "t", outcome: "failed", durationMs: 1 });
    workerMetrics.eventDied({ subscription: "mail" });
    workerMetrics.gapFound();
    workerMetrics.roundEnded({ status: "done", handled: 0 });
    recordStorageCall({ service: "blob", operation: "PutBlob", priceClass: "blob write" });
    const kinds: Readonly<Partial<Record<DataPointType, string>>> = {
      [DataPointType.GAUGE]: "gauge",
      [DataPointType.SUM]: "counter",
      [DataPointType.HISTOGRAM]: "histogram",
    };
    const seen = (await collected()).map(({ descriptor, dataPoints, dataPointType }) => [
      descriptor.name,
      {
        kind: kinds[dataPointType],
        unit: descriptor.unit,
        meaning: descriptor.description,
        attributes: Object.keys(dataPoints[0]?.attributes ?? {}),
      },
    ]);
    const table = Object.entries(METRICS).map(([name, { kind, unit, meaning, attributes }]) => [name, { kind, unit, meaning, attributes }]);
    expect(Object.fromEntries(seen)).toEqual(Object.fromEntries(table));
  });
});
