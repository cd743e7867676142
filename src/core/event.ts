/**
 * An event's bytes. They are made once, at commit, and carried unchanged by relay, handlers and archive (design §3).
 *
 * The text is a CloudEvents 1.0 event in structured JSON. `data` is always the last member, so that its exact text can be cut out again
 * without parsing numbers: a `"` inside a JSON string is always written `\"`, hence the first `,"data":` is the member and nothing else.
 */
import { OutboxError, printable } from "./errors.ts";
import { isEventId, type EventId } from "./event-id.ts";
import { parseOrderId, type OrderId } from "./order-id.ts";

/** What an event says about itself, without its data. */
export interface EventHead {
  /** ULID, unique, growing along the order. The idempotency key for receivers. */
  readonly id: EventId;
  readonly orderId: OrderId;
  /** 1, 2, 3 … without gaps along the order. The fencing token for downstream systems. */
  readonly sequence: number;
  readonly type: string;
  /** CloudEvents source: the URI reference of the workflow. */
  readonly source: string;
  /** When it happened, ISO 8601. Never used for ordering. */
  readonly time: string;
  /** W3C trace context of the producer, if it had one. */
  readonly traceparent?: string;
  /** What tracing vendors add to it; only beside a traceparent. */
  readonly tracestate?: string | undefined;
  /** Id of the event that this one repeats, for the one subscription `replayFor` (F9). */
  readonly replayOf?: EventId;
  readonly replayFor?: string;
}

export interface StoredEvent extends EventHead {
  /** The exact text that was committed; its UTF-8 bytes are what is stored, archived and sent. */
  readonly text: string;
  /** The exact JSON text of the data inside {@link StoredEvent.text}. */
  readonly dataText: string;
}

export const EVENT_CONTENT_TYPE = "application/cloudevents+json; charset=utf-8";

/** The final text of an event. `dataText` must be valid JSON; it is not looked at. */
export function encodeEvent(head: EventHead, dataText: string): string {
  const attributes = JSON.stringify({
    specversion: "1.0",
    id: head.id,
    source: head.source,
    type: head.type,
    subject: head.orderId,
    time: head.time,
    sequence: String(head.sequence),
    ...(head.traceparent === undefined ? {} : { traceparent: head.traceparent, tracestate: head.tracestate }),
    ...(head.replayOf === undefined ? {} : { replayof: head.replayOf, replayfor: head.replayFor }),
    datacontenttype: "application/json",
  });
  return `${attributes.slice(0, -1)},"data":${dataText}}`;
}

/** Reads an event's text back. Throws `corrupt` for anything that {@link encodeEvent} did not write. */
export function decodeEvent(text: string): StoredEvent {
  const start = text.indexOf(',"data":');
  if (start < 0 || !text.endsWith("}")) throw new OutboxError("corrupt", "not one of our events: no data member at its end");
  let head: Record<string, unknown>;
  try {
    head = JSON.parse(`${text.slice(0, start)}}`) as Record<string, unknown>;
  } catch (cause) {
    throw new OutboxError("corrupt", `not one of our events: ${printable((cause as Error).message)}`, { cause });
  }
  const { id, type, source, subject, time, sequence, traceparent, tracestate, replayof, replayfor, specversion } = head;
  if (specversion !== "1.0") throw new OutboxError("corrupt", "not one of our events: specversion is not 1.0");
  if (typeof id !== "string" || !isEventId(id)) throw new OutboxError("corrupt", "not one of our events: its id is no ULID");
  if (typeof sequence !== "string" || !/^[1-9][0-9]{0,15}$/.test(sequence) || !Number.isSafeInteger(Number(sequence))) {
    throw new OutboxError("corrupt", `event ${id} has no valid sequence`);
  }
  if (typeof type !== "string" || typeof source !== "string" || typeof time !== "string" || typeof subject !== "string") {
    throw new OutboxError("corrupt", `event ${id} lacks type, source, subject or time`);
  }
  return {
    id,
    orderId: orderIdOf(id, subject),
    sequence: Number(sequence),
    type,
    source,
    time,
    ...(typeof traceparent === "string" ? { traceparent } : {}),
    ...(typeof tracestate === "string" ? { tracestate } : {}),
    ...(typeof replayof === "string" && isEventId(replayof) && typeof replayfor === "string"
      ? { replayOf: replayof, replayFor: replayfor }
      : {}),
    text,
    dataText: text.slice(start + ',"data":'.length, -1),
  };
}

function orderIdOf(id: EventId, subject: string): OrderId {
  try {
    return parseOrderId(subject);
  } catch (cause) {
    throw new OutboxError("corrupt", `event ${id} has a subject that is no OrderId`, { cause });
  }
}

/** The event in the bytes of a blob. Throws `corrupt` for invalid UTF-8 too. */
export function decodeEventBytes(bytes: Uint8Array): StoredEvent {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new OutboxError("corrupt", "not one of our events: not UTF-8", { cause });
  }
  return decodeEvent(text);
}

export function eventBytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
