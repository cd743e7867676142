/** Producers on memory storage with a clock that never makes a test wait, and what their tests share. */
import { expect } from "vitest";
import type { EventId } from "../../src/core/event-id.ts";
import { isOutboxError, type ErrorCode, type OutboxError } from "../../src/core/errors.ts";
import type { Logger } from "../../src/core/logger.ts";
import { ORDER_ROW, OUTBOX_END } from "../../src/core/names.ts";
import { encodeOrderId, parseOrderId, type OrderKey } from "../../src/core/order-id.ts";
import type { OrderAndOutbox, OrderTransaction } from "../../src/core/ports.ts";
import { seededRandom } from "../../src/local/seeded-random.ts";
import type { CommitResult } from "../../src/producer/order-change.ts";
import { createOutbox, type Outbox, type OutboxOptions } from "../../src/producer/outbox.ts";
import { decodeOrderAndOutbox } from "../../src/storage/order-rows.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { createMemoryStorage, type MemoryStorage, type PortCall } from "../support/memory-storage.ts";
import { workflow, type TestWorkflow } from "./fixtures/workflow.ts";

export { steps, workflow, type TestWorkflow } from "./fixtures/workflow.ts";

/** Sleeps end at once, and the clocks say that they took their time. */
export class AutoClock extends ManualClock {
  override sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
    this.skipMonotonic(ms);
    return Promise.resolve();
  }
}

export class Scene {
  readonly clock: AutoClock = new AutoClock();
  readonly storage: MemoryStorage = createMemoryStorage(this.clock);
  /** Warnings, in order. */
  readonly warnings: string[] = [];
  readonly logger: Logger = {
    debug: () => undefined,
    info: () => undefined,
    warn: (message) => void this.warnings.push(message),
    error: () => undefined,
  };
  #producers = 0;

  /** A producer with random numbers of its own. */
  outbox(options: Partial<OutboxOptions<TestWorkflow>> = {}): Outbox<TestWorkflow> {
    this.#producers += 1;
    return createOutbox({
      workflow,
      storage: this.storage,
      clock: this.clock,
      random: seededRandom(this.#producers),
      logger: this.logger,
      ...options,
    });
  }

  /** What the table holds of an order, read past the ports. */
  stored(orderId = "o-1"): OrderAndOutbox {
    const order = orderKey(orderId);
    return decodeOrderAndOutbox(
      order,
      this.storage.rows(order).filter(({ rowKey }) => rowKey >= ORDER_ROW && rowKey < OUTBOX_END),
    );
  }

  /** Data of the committed events, in row order. */
  steps(orderId = "o-1"): readonly unknown[] {
    return this.stored(orderId).outbox.map(({ text }) => (JSON.parse(text ?? "null") as { readonly data: unknown }).data);
  }
}

export function orderKey(orderId = "o-1"): OrderKey {
  return encodeOrderId(parseOrderId(orderId));
}

/** C1: sequences 1 to `count` without gaps, ids growing with them, and the order entity at the last. */
export function expectDense({ order, outbox }: OrderAndOutbox, count: number): void {
  expect(outbox.map(({ sequence }) => sequence)).toEqual(Array.from({ length: count }, (_, index) => index + 1));
  expect(new Set(outbox.map(({ id }) => id)).size).toBe(count);
  expect({ sequence: order?.sequence, lastEventId: order?.lastEventId }).toEqual({ sequence: count, lastEventId: outbox.at(-1)?.id });
}

/** What the caller was told is what the table holds. */
export function expectReported({ outbox }: OrderAndOutbox, ...results: readonly CommitResult[]): void {
  const reported = results.flatMap(({ events }) => events).map(({ id, sequence }) => ({ id, sequence }));
  const stored: readonly { readonly id: EventId; readonly sequence: number }[] = outbox.map(({ id, sequence }) => ({ id, sequence }));
  expect(stored).toEqual(reported.toSorted((a, b) => a.sequence - b.sequence));
}

/** The error that `promise` fails with, which must be one of ours with one of `codes`. */
export async function failure(promise: Promise<unknown>, ...codes: readonly ErrorCode[]): Promise<OutboxError> {
  const error: unknown = await promise.then(
    (value) => expect.fail(`resolved with ${JSON.stringify(value)}, expected ${codes.join(" or ")}`),
    (reason: unknown) => reason,
  );
  if (!isOutboxError(error, ...codes)) throw error;
  return error;
}

export function commitTokenOf({ details }: OutboxError): string {
  return details.commitToken ?? expect.fail("the error carries no commitToken");
}

export function isCommit({ port, method }: PortCall): boolean {
  return port === "orders" && method === "commit";
}

export function transactionOf(call: PortCall): OrderTransaction {
  return call.args[0] as OrderTransaction;
}
