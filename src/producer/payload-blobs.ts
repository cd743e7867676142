/** Event texts that are too big for the table: blobs that exist before the entity that names them (design §3). */
import { describeError, isOutboxError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { OrderId } from "../core/order-id.ts";
import type { Blobs } from "../core/ports.ts";
import type { PreparedEvents } from "./prepare-events.ts";

type Payloads = PreparedEvents["payloads"];

/** Their names are new, so "already there" is a lost answer. */
export async function storePayloads(blobs: Blobs, payloads: Payloads, call: { readonly signal?: AbortSignal }): Promise<void> {
  for (const { name, bytes } of payloads) {
    try {
      await blobs.create("payloads", name, bytes, {}, call);
    } catch (error) {
      if (!isOutboxError(error, "already-exists")) throw error;
    }
  }
}

/** Of a commit that was refused. Never throws: what stays behind is found by cleanup. */
export async function dropPayloads(blobs: Blobs, payloads: Payloads, logger: Logger, orderId: OrderId): Promise<void> {
  if (payloads.length === 0) return;
  try {
    await blobs.delete(
      "payloads",
      payloads.map(({ name }) => name),
    );
  } catch (error) {
    logger.warn("a payload of a refused commit is left behind", { orderId, error: describeError(error) });
  }
}
