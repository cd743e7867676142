import { describe, expect, test } from "vitest";
import type { PipelineRequest } from "@azure/core-rest-pipeline";
import { createOutbox, type Outbox, type OutboxOptions } from "../../src/producer/outbox.ts";
import { faultyHttp, always, onOperation, type FaultyHttp } from "../support/faulty-http.ts";
import { connectTestStorage, type TestStorage } from "../support/azurite-storage.ts";
import { commitTokenOf, expectDense, expectReported, failure, orderKey, steps, workflow, type TestWorkflow } from "./support.ts";

const TRANSACTION = "table Transaction";

interface AccountScene {
  readonly http: FaultyHttp;
  readonly storage: TestStorage;
  readonly outbox: Outbox<TestWorkflow>;
  /** A producer of another process: same account, no faults. */
  readonly other: Outbox<TestWorkflow>;
}

async function connect(options: Partial<OutboxOptions<TestWorkflow>> = {}, callTimeoutMs = 1_000): Promise<AccountScene> {
  const http = faultyHttp();
  const storage = await connectTestStorage({ httpClient: http, callTimeoutMs });
  const undisturbed = await connectTestStorage({ prefix: storage.prefix });
  return {
    http,
    storage,
    outbox: createOutbox({ workflow, storage, ...options }),
    other: createOutbox({ workflow, storage: undisturbed }),
  };
}

async function visibleMessages({ storage }: AccountScene): Promise<readonly string[]> {
  return (await storage.wakeUps.receive(32, 60_000)).map(({ text }) => text);
}

const bigCommit = (outbox: Outbox<TestWorkflow>) =>
  outbox.commit("o-1", (state) => ({
    state: { commits: (state?.commits ?? 0) + 1 },
    events: [{ type: "document", data: "x".repeat(400_000) }],
  }));

describe("C03: the commit succeeded but the client is told otherwise", () => {
  test.each([
    ["a: a new order", 0],
    ["b: an existing order with its etag", 1],
  ])("%s: the lost response is a success, exactly once", async (_name, before) => {
    const scene = await connect();
    for (let n = 0; n < before; n++) await scene.outbox.commit("o-1", steps(0));
    const sentBefore = scene.http.count(TRANSACTION);
    scene.http.rule = onOperation(TRANSACTION, "lose-response", sentBefore + 1);
    const result = await scene.outbox.commit("o-1", steps(1));
    // Not repeated: the producer asked, and found its token.
    expect(scene.http.count(TRANSACTION)).toBe(sentBefore + 1);
    expect(result).toMatchObject({ sequence: before + 1, repeated: false });
    expectDense(await scene.storage.orders.readOutbox(orderKey()), before + 1);
    expect(await visibleMessages(scene)).toHaveLength(before + 1);
  });

  test("c: 202 with a busy service inside is tried again as a whole, with the same ids", async () => {
    const scene = await connect();
    const bodies: unknown[] = [];
    scene.http.rule = ({ operation, nth, request }) => {
      if (operation !== TRANSACTION) return "pass";
      bodies.push(request.body);
      return nth > 1
        ? "pass"
        : { status: 202, headers: { "content-type": "multipart/mixed; boundary=batchresponse_1" }, body: busyInside() };
    };
    const result = await scene.outbox.commit("o-1", steps(1, 2));
    expect(bodies).toHaveLength(2);
    const ids = bodies.map((body) => String(body).match(/01[0-9A-Z]{24}/g));
    expect(ids[0]).toEqual(ids[1]);
    expectReported(await scene.storage.orders.readOutbox(orderKey()), result);
    expectDense(await scene.storage.orders.readOutbox(orderKey()), 2);
  });

  test("d: the same refusal caused by another writer is a conflict: decided again on what that one left", async () => {
    const scene = await connect();
    const seen: number[] = [];
    const result = await scene.outbox.commit("o-1", async (state, order) => {
      seen.push(order.sequence);
      if (seen.length === 1) await scene.other.commit("o-1", steps(1));
      return steps(2)(state, order);
    });
    expect(seen).toEqual([0, 1]);
    expect(result).toMatchObject({ sequence: 2, repeated: false });
    expectDense(await scene.storage.orders.readOutbox(orderKey()), 2);
  });

  test("d: and with no repetition allowed, an error that says that nothing was written", async () => {
    const scene = await connect({ maxConflicts: 0 });
    const commit = scene.outbox.commit("o-1", async (state, order) => {
      await scene.other.commit("o-1", steps(1));
      return steps(2)(state, order);
    });
    await failure(commit, "conflict");
    expectDense(await scene.storage.orders.readOutbox(orderKey()), 1);
  });
});

/** A transaction's answer whose inner status says that the service was busy. */
function busyInside(): string {
  const error = JSON.stringify({ "odata.error": { code: "ServerBusy", message: { lang: "en-US", value: "0:The server is busy." } } });
  return [
    "--batchresponse_1",
    "Content-Type: multipart/mixed; boundary=changesetresponse_1",
    "",
    "--changesetresponse_1",
    "Content-Type: application/http",
    "Content-Transfer-Encoding: binary",
    "",
    "HTTP/1.1 503 Service Unavailable",
    "Content-Type: application/json;odata=minimalmetadata",
    "",
    error,
    "--changesetresponse_1--",
    "--batchresponse_1--",
    "",
  ].join("\r\n");
}

describe("any single response of a commit lost: success, exactly once (C2)", () => {
  test("C2: for every request that a commit makes", async () => {
    const rehearsal = await connect();
    await bigCommit(rehearsal.outbox);
    const operations = [...rehearsal.http.seen];
    expect(operations.toSorted()).toEqual(
      ["blob PutBlob", "queue SendMessage", "queue UpdateMessage", "table ReadEntity", "table Transaction"].toSorted(),
    );
    for (const operation of operations) {
      const scene = await connect();
      scene.http.rule = onOperation(operation, "lose-response");
      const result = await bigCommit(scene.outbox);
      const stored = await scene.storage.orders.readOutbox(orderKey());
      expectDense(stored, 1);
      expectReported(stored, result);
      const payload = await scene.storage.blobs.read("payloads", stored.outbox[0]?.payloadBlob ?? "");
      expect(payload?.bytes.length).toBeGreaterThan(400_000);
      expect((await visibleMessages(scene)).length).toBeGreaterThanOrEqual(1);
    }
  });
});

describe("C04: a stale etag is never ignored", () => {
  test("C04: an order changed since it was read is not overwritten, and its event is not written", async () => {
    const scene = await connect();
    await scene.outbox.commit("o-1", steps(1));
    const { order } = await scene.storage.orders.readOutbox(orderKey());
    await scene.other.commit("o-1", steps(2));
    const stale = {
      order: orderKey(),
      etag: order?.etag,
      entity: { sequence: 2, lastEventId: order?.lastEventId, state: '{"commits":0}', commitTokens: [] },
      outbox: [],
      entities: [],
    };
    await failure(scene.storage.orders.commit(stale), "precondition-failed");
    expect((await scene.outbox.read("o-1"))?.state).toEqual({ commits: 2 });
    expectDense(await scene.storage.orders.readOutbox(orderKey()), 2);
  });

  test("C04: an own row updated at a stale etag refuses the whole commit and is named", async () => {
    const scene = await connect();
    const row = { rowKey: "line:1", properties: { amount: 1 } };
    const withRow = (entity: Parameters<TestStorage["orders"]["commit"]>[0]["entities"][number]) =>
      scene.outbox.commit("o-1", (state) => ({
        state: { commits: (state?.commits ?? 0) + 1 },
        events: [{ type: "step", data: { n: 1 } }],
        entities: [entity],
      }));
    await withRow({ action: "insert", ...row });
    const stale = (await scene.outbox.readEntity("o-1", "line:1"))?.etag ?? expect.fail();
    await withRow({ action: "update", ...row, etag: stale });
    const refused = await failure(withRow({ action: "update", ...row, etag: stale }), "precondition-failed");
    expect(refused.message).toContain("line:1");
    const doubled = await failure(withRow({ action: "insert", ...row }), "already-exists");
    expect(doubled.message).toContain("line:1");
    expectDense(await scene.storage.orders.readOutbox(orderKey()), 2);
  });
});

describe("C8: nothing hangs for ever", () => {
  test("C8: every request of a commit carries an abort signal", async () => {
    const scene = await connect();
    const requests: PipelineRequest[] = [];
    scene.http.rule = ({ request }) => {
      requests.push(request);
      return "pass";
    };
    await bigCommit(scene.outbox);
    await scene.outbox.read("o-1");
    expect(requests.length).toBeGreaterThanOrEqual(6);
    expect(requests.filter(({ abortSignal }) => abortSignal === undefined)).toEqual([]);
  });

  test.concurrent.each([
    ["table ReadEntity", "timeout"],
    ["blob PutBlob", "timeout"],
    [TRANSACTION, "outcome-unknown"],
  ] as const)("C8: a hanging %s ends in %s", async (operation, code) => {
    const scene = await connect();
    scene.http.rule = always(operation, "hang-until-abort");
    const error = await failure(bigCommit(scene.outbox), code);
    scene.http.rule = () => "pass";
    expect((await scene.storage.orders.readOutbox(orderKey())).outbox).toEqual([]);
    const options = code === "outcome-unknown" ? { commitToken: commitTokenOf(error) } : {};
    expect(await scene.outbox.commit("o-1", steps(1), options)).toMatchObject({ sequence: 1, repeated: false });
  });

  test("C3, C8: a caller who gives up while the transaction hangs gets outcome-unknown with a token", async () => {
    const scene = await connect({}, 120_000);
    const controller = new AbortController();
    scene.http.rule = ({ operation }) => {
      if (operation !== TRANSACTION) return "pass";
      setImmediate(() => controller.abort());
      return "hang-until-abort";
    };
    commitTokenOf(await failure(scene.outbox.commit("o-1", steps(1), { signal: controller.signal }), "outcome-unknown"));
  });

  test.concurrent.each([
    ["at send", "queue SendMessage"],
    ["at fire", "queue UpdateMessage"],
    ["at send and fire", "queue"],
  ])("C4, C8: a queue that hangs %s does not fail the commit", async (_name, operation) => {
    const warnings: string[] = [];
    const logger = {
      debug: () => undefined,
      info: () => undefined,
      warn: (message: string) => void warnings.push(message),
      error: () => undefined,
    };
    // The deadline of ordinary calls would come too late for this test: a commit waits for the queue by a shorter one.
    const scene = await connect({ wakeUpTimeoutMs: 100, logger }, 120_000);
    scene.http.rule = (seen) => (seen.operation.startsWith(operation) ? "hang-until-abort" : "pass");
    expect(await scene.outbox.commit("o-1", steps(1))).toMatchObject({ sequence: 1, repeated: false });
    expectDense(await scene.storage.orders.readOutbox(orderKey()), 1);
    expect(warnings.length).toBeGreaterThan(0);
  });
});

describe("C03: an answer that does not say what it should", () => {
  const response = (inner: string): string =>
    `--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_1\r\n\r\n--changesetresponse_1\r\n${inner}\r\n--changesetresponse_1--\r\n--batchresponse_1--\r\n`;

  test.each([
    ["an inner 503 without JSON", response("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/xml\r\n\r\n<error/>")],
    ["nothing inside", ""],
    ["fewer answers than operations", response("HTTP/1.1 204 No Content\r\n\r\n")],
  ])("202 with %s is never taken for a commit", async (_name, body) => {
    const scene = await connect();
    const headers = { "content-type": "multipart/mixed; boundary=batchresponse_1" };
    scene.http.rule = onOperation(TRANSACTION, { status: 202, headers, body });
    // That answer came instead of the service's own: nothing was written, so the same transaction is sent again.
    expect(await scene.outbox.commit("o-1", steps(1))).toMatchObject({ sequence: 1, repeated: false });
    expect(scene.http.count(TRANSACTION)).toBe(2);
    expectDense(await scene.storage.orders.readOutbox(orderKey()), 1);
  });

  test("a refusal after a transaction that landed unanswered is a success; its payload and wake-up stay", async () => {
    const scene = await connect();
    scene.http.rule = ({ operation, nth }) => (operation === TRANSACTION ? (nth === 1 ? "lose-response" : { status: 403 }) : "pass");
    expect(await scene.outbox.commit("o-1", steps(1))).toMatchObject({ sequence: 1, repeated: false });
    expectDense(await scene.storage.orders.readOutbox(orderKey()), 1);
    expect(await visibleMessages(scene)).toHaveLength(1);
  });
});
