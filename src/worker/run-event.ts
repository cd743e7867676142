/** One start of one event's handler, from its bytes to an outcome. */
import type { Clock } from "../core/clock.ts";
import { describeError, describeStack, isOutboxError, OutboxError, printable } from "../core/errors.ts";
import { decodeEvent, decodeEventBytes, type StoredEvent } from "../core/event.ts";
import type { Logger } from "../core/logger.ts";
import { eventBlobName } from "../core/names.ts";
import type { OrderId, OrderKey } from "../core/order-id.ts";
import { encodePendingState } from "../core/pending-event.ts";
import type { Blobs, Etag } from "../core/ports.ts";
import { validate } from "../core/schema.ts";
import type { QueuedEvent } from "../core/stream.ts";
import type { AnyWorkflow, HandledEvent, Subscription } from "../core/workflow.ts";
import type { HeldLease } from "./held-lease.ts";

export type EventOutcome =
  | { readonly kind: "handled"; readonly text: string; readonly attempts: number }
  /** The handler threw; the start is counted. */
  | { readonly kind: "failed"; readonly error: string }
  /** It can't be started as things are; no start is counted. */
  | { readonly kind: "waiting"; readonly error: string };

export interface RunContext {
  readonly workflow: AnyWorkflow;
  readonly blobs: Blobs;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly handlerTimeoutMs: number;
  readonly orderId: OrderId;
  readonly order: OrderKey;
  readonly lease: HeldLease;
  /** Aborts when the host stops for good. */
  readonly stop: AbortSignal;
}

/** Throws `lease-lost` when the lease is lost before or during the handler: then nothing of this start is written (C05). */
export async function runEvent(context: RunContext, subscription: Subscription, queued: QueuedEvent): Promise<EventOutcome> {
  let event: HandledEvent<AnyWorkflow>;
  try {
    event = await openEvent(context, subscription, queued);
  } catch (error) {
    if (!isOutboxError(error, "corrupt", "gap", "handler-missing", "invalid-event")) throw error;
    return { kind: "waiting", error: describeError(error) };
  }
  // Kept aside: the archive gets the committed bytes, whatever the handler does to its event.
  const { text } = event;
  const attempts = queued.attempts + 1;
  let etag: Etag = queued.etag;
  if (queued.suspect) {
    // W4: its last start may have killed the process, so this one is counted before it happens.
    const counted = await countStart(context, subscription, queued, etag, { attempts });
    if (counted === undefined) return { kind: "waiting", error: `the event blob of ${queued.id} was changed by somebody else` };
    etag = counted;
  }
  context.lease.assertHeld();
  try {
    // The predicate threw at the relay: now is the time to ask it again, as a part of the handling.
    if (queued.undecided && !subscription.wants(event)) return { kind: "handled", text, attempts };
    await callHandler(context, subscription, event, attempts);
  } catch (error) {
    context.lease.assertHeld();
    const failure = describeError(error);
    context.logger.error("a handler failed", {
      orderId: context.orderId,
      subscription: subscription.name,
      eventId: queued.id,
      sequence: queued.sequence,
      attempt: attempts,
      error: failure,
      stack: describeStack(error),
    });
    if (context.stop.aborted) return { kind: "waiting", error: `stopped while it ran: ${failure}` };
    await countStart(context, subscription, queued, etag, { attempts, lastError: failure });
    return { kind: "failed", error: failure };
  }
  return { kind: "handled", text, attempts };
}

/** Ends when the handler does, or with its time. One that ignores its signal goes on unwatched; its event counts as failed. */
async function callHandler(
  context: RunContext,
  subscription: Subscription,
  event: HandledEvent<AnyWorkflow>,
  attempt: number,
): Promise<void> {
  const { clock, handlerTimeoutMs } = context;
  const over = new AbortController();
  const ended = new AbortController();
  const timeout = clock.sleep(handlerTimeoutMs, ended.signal).then(
    () => {
      const error = new OutboxError("timeout", `the handler of ${subscription.name} took longer than ${handlerTimeoutMs} ms`);
      over.abort(error);
      throw error;
    },
    () => undefined,
  );
  const signal = AbortSignal.any([context.lease.lost, context.stop, over.signal]);
  const handling = (async () => subscription.handle(event, { subscription: subscription.name, attempt, signal }))();
  try {
    await Promise.race([handling, timeout]);
  } finally {
    ended.abort();
    // Whatever it throws after its time is over, nobody waits for it.
    handling.catch(() => undefined);
  }
}

async function openEvent(context: RunContext, subscription: Subscription, queued: QueuedEvent): Promise<HandledEvent<AnyWorkflow>> {
  const stored = await readEvent(context, subscription, queued);
  const { workflow } = context;
  const schema = Object.hasOwn(workflow.events, stored.type) ? workflow.events[stored.type] : undefined;
  if (schema === undefined) {
    throw new OutboxError(
      "handler-missing",
      `event type ${printable(stored.type)} is not in the deployed workflow ${workflow.name}; it waits`,
    );
  }
  let value: unknown;
  try {
    value = JSON.parse(stored.dataText);
  } catch (cause) {
    throw new OutboxError("corrupt", `the data of event ${queued.id} is not JSON`, { cause });
  }
  const data = await validate(schema, value, `the data of event ${queued.id} (${printable(stored.type)})`, "invalid-event");
  return { ...stored, data };
}

async function readEvent(context: RunContext, subscription: Subscription, queued: QueuedEvent): Promise<StoredEvent> {
  const name = eventBlobName(subscription.name, context.order, queued.id);
  let event: StoredEvent;
  if (queued.text !== undefined) event = decodeEvent(queued.text);
  else {
    const blob = await context.blobs.read("events", name);
    if (blob === undefined) throw new OutboxError("gap", `events/${name} is gone although it was not handled`);
    event = decodeEventBytes(blob.bytes);
  }
  if (event.id !== queued.id || event.sequence !== queued.sequence || event.orderId !== context.orderId) {
    throw new OutboxError("corrupt", `events/${name} holds another event (${event.id}, sequence ${event.sequence})`);
  }
  return event;
}

/** The new etag, or undefined if somebody else changed the blob. */
async function countStart(
  context: RunContext,
  subscription: Subscription,
  queued: QueuedEvent,
  etag: Etag,
  state: { readonly attempts: number; readonly lastError?: string },
): Promise<Etag | undefined> {
  const name = eventBlobName(subscription.name, context.order, queued.id);
  const metadata = encodePendingState({ ...queued, ...state });
  try {
    return await context.blobs.writeMetadata("events", name, metadata, etag);
  } catch (error) {
    if (!isOutboxError(error, "precondition-failed", "not-found")) throw error;
    // A lost answer looks like somebody else's write: was it mine?
    const blob = await context.blobs.read("events", name);
    const mine = blob !== undefined && Object.entries(metadata).every(([key, value]) => blob.metadata[key] === value);
    return mine ? blob.etag : undefined;
  }
}
