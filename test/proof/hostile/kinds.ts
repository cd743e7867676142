/** The kinds of hostile input: how they are made, where they are put, and what must hold afterwards. */
import * as fc from "fast-check";
import type { Container } from "../../../src/core/names.ts";
import { describeError, isOutboxError } from "../../../src/core/errors.ts";
import { decodeOrderKey, encodeOrderId, parseOrderId, type OrderId } from "../../../src/core/order-id.ts";
import type { Logger } from "../../../src/core/logger.ts";
import { decodeWakeUp } from "../../../src/core/wake-up.ts";
import { startWorkerHost } from "../../../src/worker/host.ts";
import { key } from "../../worker/round-support.ts";
import { archiveBundles } from "./bundles.ts";
import { commandLines } from "./command-lines.ts";
import { Harm, HostileScene, IDLE } from "./scene.ts";
import { damages, texts } from "./texts.ts";

export interface Kind<Input = unknown> {
  readonly name: string;
  /** How many inputs the full size has. */
  readonly share: number;
  readonly inputs: fc.Arbitrary<Input>;
  /** So many share an account. */
  readonly together: number;
  /** Throws for harm. */
  tryOut(inputs: readonly Input[]): Promise<void>;
}

const victim = (index: number): string => `v-${index}`;

/** Queue texts: what names an order wakes it, the rest is reported and goes. */
const queueTexts: Kind<string> = {
  name: "queue texts",
  share: 30_000,
  together: 10,
  inputs: fc.oneof(
    texts,
    fc.tuple(fc.constantFrom('"idle"', '"v-1"', "100"), damages).map(([text, damage]) => damage(text)),
  ),
  async tryOut(inputs) {
    const hostile = await HostileScene.make();
    const { scene } = hostile;
    // The host stops its worker for good.
    const worker = scene.worker();
    const dropped: string[] = [];
    const logger: Logger = { debug() {}, info() {}, warn() {}, error: (message) => void dropped.push(message) };
    for (const { receipt } of await scene.storage.wakeUps.receive(32, 1_000)) await scene.storage.wakeUps.delete(receipt);
    for (const text of inputs) await scene.storage.wakeUps.send(text, 0);
    const host = startWorkerHost({ worker, wakeUps: scene.storage.wakeUps, clock: scene.clock, random: () => 0.5, logger });
    // A wake-up that joined a round comes back after it.
    await scene.clock.advance(61_000);
    await scene.until(host.stop());
    const named = inputs.flatMap((text) => orderIdOf(text) ?? []);
    const unnamed = inputs.length - named.length;
    const left = scene.storage.messages().length;
    if (dropped.filter((message) => message.includes("names no order")).length !== unnamed)
      throw new Harm(`${unnamed} texts name no order, and the log says: ${dropped.join("; ")}`);
    if (left > 0) throw new Harm(`${left} wake-ups are left in the queue`);
    const touched = new Set([IDLE, ...named].map((orderId) => key(orderId)));
    for (const { port, args } of scene.storage.calls) {
      if (port === "leases" && !touched.has(args[0] as ReturnType<typeof key>))
        throw new Harm(`order ${String(args[0])} was touched, and no text names it`);
    }
    scene.storage.forgetCalls();
    await hostile.meet([]);
    hostile.assertHarmless([]);
  },
};

function orderIdOf(text: string): OrderId | undefined {
  try {
    return decodeWakeUp(text);
  } catch (error) {
    if (isOutboxError(error, "invalid-order-id")) return undefined;
    throw error;
  }
}

interface BlobDamage {
  /** Of the two pending events. */
  readonly event: number;
  readonly bytes: ((text: string) => string) | Uint8Array | undefined;
  readonly metadata: Readonly<Record<string, string>> | undefined;
  /** Puts it beside the event instead. */
  readonly name: string | undefined;
  readonly container: Container;
}

const METADATA_NAMES = [
  "sequence",
  "previous",
  "attempts",
  "crashes",
  "status",
  "nextattempt",
  "waitms",
  "lasterror",
  "history",
  "undecided",
  "decision",
  "decidedby",
  "decidedat",
  "decisionreason",
];
const metadata = fc.dictionary(fc.constantFrom(...METADATA_NAMES), fc.oneof(texts, fc.nat(3).map(String)), { maxKeys: 5 });

/** Event blobs: bytes, metadata, and blobs of other names in the way. */
const eventBlobs: Kind<BlobDamage> = {
  name: "event blobs",
  share: 20_000,
  together: 6,
  inputs: fc.record({
    event: fc.nat(1),
    bytes: fc.option(fc.oneof(damages, fc.uint8Array({ maxLength: 60 })), { nil: undefined }),
    metadata: fc.option(metadata, { nil: undefined }),
    name: fc.option(texts, { nil: undefined, freq: 4 }),
    container: fc.constantFrom("events", "events", "events", "archive", "dead"),
  }),
  async tryOut(inputs) {
    const hostile = await HostileScene.make();
    const { scene } = hostile;
    const { storage } = scene;
    for (const index of inputs.keys()) await hostile.commit(victim(index), 2);
    scene.onHandle = () => {
      throw new Error("carrier is down");
    };
    for (const index of inputs.keys()) await hostile.round(victim(index));
    scene.onHandle = () => undefined;
    hostile.handled.splice(2);
    hostile.reports.clear();
    inputs.forEach(({ event, bytes, metadata: changed, name, container }, index) => {
      const prefix = `audit/${key(victim(index))}/`;
      const [path, blob] = storage.blobEntries("events").filter(([each]) => each.startsWith(prefix))[event]!;
      const content =
        bytes instanceof Uint8Array
          ? bytes
          : bytes === undefined
            ? blob.bytes
            : new TextEncoder().encode(bytes(new TextDecoder().decode(blob.bytes)));
      const target = name === undefined ? path : `${prefix}${name}`;
      storage.putBlob(name === undefined ? "events" : container, target, content, { ...blob.metadata, ...changed });
    });
    await scene.clock.advance(20_000);
    await meetAndJudge(hostile, inputs.length);
  },
};

interface RowDamage {
  readonly event: number;
  readonly rowKey: string | undefined;
  readonly property: string;
  readonly value: ((text: string) => string) | number | boolean | bigint;
}

/** Outbox entities: their properties, and rows that look like one. */
const outboxEntities: Kind<RowDamage> = {
  name: "outbox entities",
  share: 15_000,
  together: 6,
  inputs: fc.record({
    event: fc.nat(1),
    rowKey: fc.option(
      texts.map((text) => `outbox:${text}`),
      { nil: undefined, freq: 4 },
    ),
    property: fc.constantFrom("event", "event", "event", "sequence", "payload", "event0", "event1", "eventParts", "x"),
    value: fc.oneof(
      { weight: 4, arbitrary: damages },
      { weight: 1, arbitrary: fc.double() },
      { weight: 1, arbitrary: fc.boolean() },
      { weight: 2, arbitrary: fc.bigInt({ min: -1n, max: 9_007_199_254_740_993n }) },
    ),
  }),
  async tryOut(inputs) {
    const hostile = await HostileScene.make();
    const { storage } = hostile.scene;
    for (const [index, { event, rowKey, property, value }] of inputs.entries()) {
      const order = key(victim(index));
      await hostile.commit(victim(index), 2);
      const row = storage.rows(order).filter((each) => each.rowKey.startsWith("outbox:"))[event]!;
      const old = row.properties[property];
      const next = typeof value === "function" ? value(typeof old === "string" ? old : "") : value;
      storage.putRow(order, rowKey ?? row.rowKey, { ...row.properties, [property]: next });
    }
    await meetAndJudge(hostile, inputs.length);
  },
};

/** What the lease blob says of progress. */
const progress: Kind<(text: string) => string> = {
  name: "progress metadata",
  share: 15_000,
  together: 6,
  inputs: damages,
  async tryOut(inputs) {
    const hostile = await HostileScene.make();
    const { storage } = hostile.scene;
    for (const [index, damage] of inputs.entries()) {
      const order = key(victim(index));
      await hostile.commit(victim(index), 2);
      await hostile.round(victim(index));
      const { etag, metadata: old } = storage.leaseOf(order)!;
      const lease = { leaseId: "hostile", etag };
      await storage.leases.acquire(order, { id: lease.leaseId, durationMs: 15_000, etag });
      // What the service would not hold does not get there.
      await storage.leases.writeMetadata(order, { ...old, progress: damage(old["progress"]!) }, lease).catch((error: unknown) => {
        if (!isOutboxError(error)) throw error;
      });
      await storage.leases.release(order, lease.leaseId);
      await hostile.commit(victim(index), 1);
    }
    await meetAndJudge(hostile, inputs.length);
  },
};

/** OrderIds: refused at once, or carried through every place. */
const orderIds: Kind<string> = {
  name: "OrderIds",
  share: 10_000,
  together: 6,
  inputs: fc.oneof(
    texts,
    fc.tuple(fc.constantFrom("idle", "o-1", "100", "caf\u00e9", "a/b"), damages).map(([text, damage]) => damage(text)),
  ),
  async tryOut(inputs) {
    const hostile = await HostileScene.make();
    const accepted = new Set<string>();
    for (const text of inputs) {
      try {
        if (text !== IDLE && text !== "busy") accepted.add(parseOrderId(text));
      } catch (error) {
        if (!isOutboxError(error, "invalid-order-id")) throw error;
        if (/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u.test(describeError(error)))
          throw new Harm(`the refusal of ${JSON.stringify(text)} can forge a log line`);
      }
    }
    const keys = new Set<string>([key(IDLE)]);
    for (const orderId of accepted) {
      const order = encodeOrderId(parseOrderId(orderId));
      if (!/^[A-Za-z0-9_~-]{1,512}$/.test(order)) throw new Harm(`the key of ${JSON.stringify(orderId)} is ${order}`);
      if (decodeOrderKey(order) !== orderId) throw new Harm(`the key ${order} does not read back as ${JSON.stringify(orderId)}`);
      if (keys.has(order)) throw new Harm(`two OrderIds share the key ${order}`);
      keys.add(order);
      await hostile.commit(orderId, 1);
    }
    await hostile.meet([...accepted]);
    hostile.assertHarmless([...accepted]);
    for (const orderId of accepted) {
      if (!hostile.handled.some((each) => each.orderId === orderId))
        throw new Harm(`the event of ${JSON.stringify(orderId)} was not handled`);
    }
  },
};

async function meetAndJudge(hostile: HostileScene, count: number): Promise<void> {
  const victims = Array.from({ length: count }, (_each, index) => victim(index));
  await hostile.meet(victims);
  hostile.assertHarmless(victims);
}

export const KINDS: readonly Kind[] = [queueTexts, eventBlobs, archiveBundles, outboxEntities, progress, orderIds, commandLines];
