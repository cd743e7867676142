import { OutboxError } from "./errors.ts";
import { decodeEvent, decodeEventBytes, type StoredEvent } from "./event.ts";
import type { OutboxEntity } from "./ports.ts";

/**
 * The event of an outbox entity. Throws `corrupt` if its text or payload is not the event it names.
 *
 * @param payload the bytes of its payload blob; undefined: it has none, or the blob is missing
 */
export function outboxEvent({ id, sequence, text }: OutboxEntity, payload: Uint8Array | undefined): StoredEvent {
  if (text === undefined && payload === undefined) throw new OutboxError("corrupt", `the payload of outbox entity ${id} is missing`);
  const event = text === undefined ? decodeEventBytes(payload!) : decodeEvent(text);
  if (event.id !== id || event.sequence !== sequence) {
    throw new OutboxError("corrupt", `the outbox entity ${id} holds another event (${event.id}, sequence ${event.sequence})`);
  }
  return event;
}
