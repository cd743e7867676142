/**
 * The naive baseline: the same idea without what makes it safe. An order change and its outbox rows in one transaction; each event a blob and a
 * queue message of its own; a worker takes the order's lease, lists the order's folder, reads the first blob, handles it, copies it to the
 * archive, deletes it, gives the lease back.
 *
 * Written as well as that design can be: independent calls go side by side, and a lease that is taken fails no message. It guarantees nothing of G2 to
 * G6: no fencing, no retry, no dead letter, no count of attempts, no second look, a lost message is a lost event.
 */
import { randomUUID } from "node:crypto";
import { buffer } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { TableClient, type TransactionAction } from "@azure/data-tables";
import { BlobServiceClient, type ContainerClient } from "@azure/storage-blob";
import { QueueServiceClient, type QueueClient } from "@azure/storage-queue";
import type { HttpClient } from "@azure/core-rest-pipeline";
import { decodeEventBytes, EVENT_CONTENT_TYPE } from "../../src/core/event.ts";
import { nextEventId, type EventId } from "../../src/core/event-id.ts";
import { CallCounter, countingClient } from "../../src/storage/call-counter.ts";
import { legacyHttpClient } from "../../src/storage/legacy-http-client.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { eventText } from "./workflow.ts";

const LEASE_SECONDS = 30;
/**
 * What becomes of a wake-up whose order is taken. `wait`: the worker asks for the lease again after short jittered pauses, and keeps its place in
 * the host meanwhile. `give-back`: the message is shown again after a second, the shortest time of a queue.
 */
export type WhenTaken = "wait" | "give-back";

const GIVEN_BACK_MS = 1_000;
const PAUSE_MS = { first: 25, longest: 400 } as const;

export class NaivePipeline {
  readonly calls = new CallCounter();
  readonly #table: TableClient;
  readonly #queue: QueueClient;
  readonly #events: ContainerClient;
  readonly #archive: ContainerClient;
  readonly #leases: ContainerClient;

  /** In the resources of a `prefix` that the product has created. */
  constructor(connectionString: string, prefix: string, httpClient: HttpClient) {
    const client = (service: "table" | "queue" | "blob"): HttpClient => countingClient(service, httpClient, this.calls);
    this.#table = TableClient.fromConnectionString(connectionString, `${prefix}orders`, {
      allowInsecureConnection: true,
      httpClient: client("table"),
    });
    const queues = QueueServiceClient.fromConnectionString(connectionString, { httpClient: legacyHttpClient(client("queue")) });
    this.#queue = queues.getQueueClient(`${prefix}-wake-ups`);
    const blobs = BlobServiceClient.fromConnectionString(connectionString, { httpClient: legacyHttpClient(client("blob")) });
    this.#events = blobs.getContainerClient(`${prefix}-events`);
    this.#archive = blobs.getContainerClient(`${prefix}-archive`);
    this.#leases = blobs.getContainerClient(`${prefix}-leases`);
  }

  /** Changes an order and publishes `count` events of it. Not for writers of the same order at the same time. */
  async commit(orderId: string, count: number): Promise<void> {
    const existing = await this.#readOrder(orderId);
    const sequence = existing?.sequence ?? 0;
    let lastId: EventId | undefined;
    const events = Array.from({ length: count }, (_, n) => {
      lastId = nextEventId(lastId, Date.now(), Math.random);
      return { id: lastId, text: eventText(lastId, orderId, sequence + n + 1) };
    });
    const order = {
      partitionKey: orderId,
      rowKey: "order",
      sequence: sequence + count,
      state: JSON.stringify({ status: "in-transit", steps: count }),
    };
    await this.#table.submitTransaction([
      existing === undefined ? ["create", order] : ["update", order, "Replace", { etag: existing.etag }],
      ...events.map(({ id, text }): TransactionAction => ["create", { partitionKey: orderId, rowKey: `outbox:${id}`, text }]),
    ]);
    await Promise.all(
      events.map(async ({ id, text }) => {
        const bytes = new TextEncoder().encode(text);
        await this.#events.getBlockBlobClient(`${orderId}/${id}.json`).upload(bytes, bytes.length, {
          blobHTTPHeaders: { blobContentType: EVENT_CONTENT_TYPE },
        });
        await this.#queue.sendMessage(JSON.stringify(orderId));
      }),
    );
    await (events.length === 1
      ? this.#table.deleteEntity(orderId, `outbox:${events[0]!.id}`)
      : this.#table.submitTransaction(events.map(({ id }) => ["delete", { partitionKey: orderId, rowKey: `outbox:${id}` }])));
  }

  /** @param handle is told of every event */
  worker(handle: (orderId: string) => Promise<void> | void, whenTaken: WhenTaken): Worker {
    return {
      handle: async (orderId) => {
        const release = await this.#acquire(orderId, whenTaken);
        if (release === undefined) return { status: "taken", retryInMs: GIVEN_BACK_MS, handled: 0, problems: [] };
        try {
          const handled = await this.#handleFirst(orderId, handle);
          return { status: "done", retryInMs: 0, handled: handled ? 1 : 0, problems: [] };
        } finally {
          await release();
        }
      },
      stopStarting: () => {},
    };
  }

  async #readOrder(orderId: string): Promise<{ readonly etag: string; readonly sequence: number } | undefined> {
    try {
      const { etag, sequence } = await this.#table.getEntity<{ sequence: number }>(orderId, "order");
      return { etag, sequence };
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  }

  /** Undefined if the order is taken and is not waited for. */
  async #acquire(orderId: string, whenTaken: WhenTaken): Promise<(() => Promise<unknown>) | undefined> {
    const blob = this.#leases.getBlockBlobClient(orderId);
    const lease = blob.getBlobLeaseClient(randomUUID());
    for (let pauseMs: number = PAUSE_MS.first; ;) {
      try {
        await lease.acquireLease(LEASE_SECONDS);
        return () => lease.releaseLease();
      } catch (error) {
        if (statusOf(error) === 404) {
          await blob.upload("", 0, { conditions: { ifNoneMatch: "*" } }).catch(ignoreConflict);
          continue;
        }
        if (statusOf(error) !== 409) throw error;
      }
      if (whenTaken === "give-back") return undefined;
      await delay(Math.random() * pauseMs);
      pauseMs = Math.min(PAUSE_MS.longest, pauseMs * 2);
    }
  }

  /** False if the folder is empty. */
  async #handleFirst(orderId: string, handle: (orderId: string) => Promise<void> | void): Promise<boolean> {
    const page = await this.#events
      .listBlobsFlat({ prefix: `${orderId}/` })
      .byPage({ maxPageSize: 1 })
      .next();
    const name = page.done === true ? undefined : page.value.segment.blobItems[0]?.name;
    if (name === undefined) return false;
    const event = this.#events.getBlockBlobClient(name);
    const answer = await event.download();
    await handle(decodeEventBytes(await buffer(answer.readableStreamBody!)).orderId);
    const copy = await this.#archive.getBlockBlobClient(name).beginCopyFromURL(event.url);
    await copy.pollUntilDone();
    await event.delete();
    return true;
  }
}

function statusOf(error: unknown): number | undefined {
  return (error as { readonly statusCode?: number }).statusCode;
}

function ignoreConflict(error: unknown): void {
  if (statusOf(error) !== 409) throw error;
}
