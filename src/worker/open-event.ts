import { OutboxError, printable } from "../core/errors.ts";
import { decodeEvent, decodeEventBytes, type StoredEvent } from "../core/event.ts";
import { eventBlobName } from "../core/names.ts";
import { validate } from "../core/schema.ts";
import type { QueuedEvent } from "../core/stream.ts";
import type { AnyWorkflow, HandledEvent } from "../core/workflow.ts";
import type { HeadContext } from "./round-options.ts";

/**
 * A stored event, checked and ready for its handler.
 *
 * @throws `handler-missing` (its type is not deployed): it waits. `corrupt`, `invalid-event`: no attempt would help.
 */
export async function openEvent(workflow: AnyWorkflow, stored: StoredEvent): Promise<HandledEvent<AnyWorkflow>> {
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
    throw new OutboxError("corrupt", `the data of event ${stored.id} is not JSON`, { cause });
  }
  const data = await validate(schema, value, `the data of event ${stored.id} (${printable(stored.type)})`, "invalid-event");
  return { ...stored, data };
}

/**
 * The event of a queue entry.
 *
 * @throws `gap`: its blob is gone, it waits. `corrupt`: no attempt would help.
 */
export async function readEvent(
  { storage, order, orderId }: Pick<HeadContext, "storage" | "order" | "orderId">,
  subscription: string,
  queued: QueuedEvent,
): Promise<StoredEvent> {
  const name = eventBlobName(subscription, order, queued.id);
  let event: StoredEvent;
  if (queued.text !== undefined) event = decodeEvent(queued.text);
  else {
    const blob = await storage.blobs.read("events", name);
    if (blob === undefined) throw new OutboxError("gap", `events/${name} is gone although it was not handled`);
    event = decodeEventBytes(blob.bytes);
  }
  if (event.id !== queued.id || event.sequence !== queued.sequence || event.orderId !== orderId) {
    throw new OutboxError("corrupt", `events/${name} holds another event (${event.id}, sequence ${event.sequence})`);
  }
  return event;
}
