/** Raw calls through the ports of the storage room: the same clients, pipelines and deadlines that the product uses. */
import { randomUUID } from "node:crypto";
import { nextEventId, type EventId } from "../../src/core/event-id.ts";
import { eventBlobName } from "../../src/core/names.ts";
import { encodeOrderId, parseOrderId } from "../../src/core/order-id.ts";
import { MAX_HIDDEN_MS, type Etag, type OutboxEntity, type Receipt, type Storage } from "../../src/core/ports.ts";
import { encodeProgress } from "../../src/core/progress.ts";
import { encodeWakeUp } from "../../src/core/wake-up.ts";
import type { RawCaller, Sizes, Stock } from "./raw-run.ts";
import { BatchSizes, Pool } from "./raw-run.ts";
import { eventText } from "./workflow.ts";

/** The longest that there is: a run has to be over by then. */
const LEASE_MS = 60_000;
const HIDDEN_MS = 60_000;

export interface RoomAccount {
  readonly storage: Storage;
  /** Its queue has messages for the receives, and gets no others while a run lasts. */
  readonly inbox: Storage;
}

export function roomCaller({ storage, inbox }: RoomAccount, name: string): RawCaller {
  const orderId = parseOrderId(name);
  const order = encodeOrderId(orderId);
  const text = encodeWakeUp(orderId);
  const size = new BatchSizes();
  const rows = new Pool<EventId>(`rows of ${name}`);
  const blobs = new Pool<string>(`blobs of ${name}`);
  const sent = new Pool<Receipt>(`messages of ${name}`);
  const received: Receipt[] = [];
  /** The lease blob whose metadata are written, held for as long as a run lasts. */
  const progress = { order: encodeOrderId(parseOrderId(`${name}-progress`)), leaseId: randomUUID(), etag: "" };
  const lease = { order: encodeOrderId(parseOrderId(`${name}-lease`)), leaseId: randomUUID(), etag: "" };
  let lastId: EventId | undefined;
  let sequence = 0;
  let etag: Etag | undefined;

  const nextId = (): EventId => (lastId = nextEventId(lastId, Date.now(), Math.random));

  async function commit(count: number): Promise<void> {
    const outbox = Array.from({ length: count }, (): OutboxEntity => {
      sequence += 1;
      const id = nextId();
      return { id, sequence, text: eventText(id, name, sequence), payloadBlob: undefined };
    });
    const entity = { sequence, lastEventId: lastId, state: JSON.stringify({ status: "in-transit", steps: sequence }), commitTokens: [] };
    await storage.orders.commit({ order, etag, entity, outbox, entities: [] });
    rows.put(outbox.map(({ id }) => id));
  }

  async function readEtag(): Promise<void> {
    etag = (await storage.orders.readOrder(order))?.etag;
  }

  async function putBlob(): Promise<void> {
    const id = nextId();
    const blob = eventBlobName("audit", order, id);
    const bytes = new TextEncoder().encode(eventText(id, name, sequence + 1));
    await storage.blobs.create("events", blob, bytes, { sequence: "1", previous: "0" });
    blobs.put([blob]);
  }

  async function send(): Promise<void> {
    sent.put([await storage.wakeUps.send(text, HIDDEN_MS)]);
  }

  return {
    async prepare(stock: Stock, batches: Sizes) {
      size.set(batches);
      if (progress.etag === "") {
        progress.etag = (await storage.leases.create(progress.order)).etag;
        lease.etag = (await storage.leases.create(lease.order)).etag;
      }
      while (etag === undefined || rows.size < stock.rows) {
        if (etag !== undefined) await readEtag();
        await commit(Math.min(90, Math.max(1, stock.rows)));
        await readEtag();
      }
      while (blobs.size < stock.blobs) await putBlob();
      while (sent.size < stock.messages) await send();
      await storage.leases.acquire(progress.order, { id: progress.leaseId, durationMs: LEASE_MS, etag: progress.etag });
    },
    calls: {
      ReadEntity: readEtag,
      CommitTransaction: async () => commit(size.next("rowsPerCommit")),
      QueryEntities: async () => void (await storage.orders.readOutbox(order)),
      DeleteEntity: async () => storage.orders.deleteOutbox(order, rows.take(1)),
      DeleteTransaction: async () => storage.orders.deleteOutbox(order, rows.take(size.next("rowsPerDelete"))),
      SendMessage: send,
      UpdateMessage: async () => sent.put([await storage.wakeUps.hide(sent.take(1)[0]!, text, HIDDEN_MS)]),
      ReceiveMessages: async () => {
        received.push(...(await inbox.wakeUps.receive(size.next("messagesPerReceive"), MAX_HIDDEN_MS)).map(({ receipt }) => receipt));
      },
      DeleteMessage: async () => {
        const receipt = received.shift();
        await (receipt === undefined ? storage.wakeUps.delete(sent.take(1)[0]!) : inbox.wakeUps.delete(receipt));
      },
      GetBlobProperties: async () => void (await storage.leases.read(lease.order)),
      // Under the same id each time: more acquisitions than releases (the product's met a holder) do no harm.
      LeaseAcquire: async () => storage.leases.acquire(lease.order, { id: lease.leaseId, durationMs: LEASE_MS, etag: lease.etag }),
      LeaseRenew: async () => storage.leases.renew(progress.order, progress.leaseId),
      SetBlobMetadata: async () => {
        const written = { clean: sequence, relayed: sequence, streams: { audit: { sequence, id: lastId, relayed: sequence } } };
        progress.etag = await storage.leases.writeMetadata(progress.order, encodeProgress(written, lastId!), progress);
      },
      LeaseRelease: async () => storage.leases.release(lease.order, lease.leaseId),
      PutBlob: putBlob,
      DeleteBlob: async () => storage.blobs.delete("events", blobs.take(1)),
      BlobBatch: async () => storage.blobs.delete("events", blobs.take(size.next("blobsPerBatch"))),
      ListBlobs: async () => void (await Array.fromAsync(storage.blobs.list("events", `audit/${order}/`))),
      GetBlob: async () => void (await storage.blobs.read("events", blobs.peek())),
    },
  };
}
