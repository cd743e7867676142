/** From the caller's events to final bytes and entities. What is wrong with an event is refused here, before any write. */
import type { EventReference } from "../core/commit-tokens.ts";
import { OutboxError, printable } from "../core/errors.ts";
import { encodeEvent, eventBytes } from "../core/event.ts";
import { nextEventId, type EventId } from "../core/event-id.ts";
import { RawJson, serializeJson } from "../core/json.ts";
import { MAX_EVENT_BYTES, MAX_INLINE_EVENT_UNITS, MAX_TRANSACTION_BYTES } from "../core/limits.ts";
import { payloadBlobName } from "../core/names.ts";
import type { OrderId, OrderKey } from "../core/order-id.ts";
import type { OutboxEntity } from "../core/ports.ts";
import { validate } from "../core/schema.ts";
import type { AnyWorkflow, EventInput } from "../core/workflow.ts";
import type { TraceContext } from "../system/tracing.ts";

export interface PreparedEvents {
  readonly references: readonly EventReference[];
  readonly entities: readonly OutboxEntity[];
  /** Texts too big for the table, to be stored before the transaction. */
  readonly payloads: readonly { readonly name: string; readonly bytes: Uint8Array }[];
}

export interface EventsContext {
  readonly orderId: OrderId;
  readonly order: OrderKey;
  /** Sequence and id that the events continue from. */
  readonly sequence: number;
  readonly lastEventId: EventId | undefined;
  readonly nowMs: number;
  readonly random: () => number;
  readonly trace: TraceContext | undefined;
}

/** Half of a transaction may hold event texts; the rest is for the state and the application's rows. */
const MAX_INLINE_TRANSACTION_UNITS = MAX_TRANSACTION_BYTES / 2 / 4;

/** What CloudEvents asks of a time; `Date` alone would take `5 Jan`. */
const RFC_3339 = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})$/;

/** @throws `unknown-event-type`, `invalid-event`, `too-large` */
export async function prepareEvents<W extends AnyWorkflow>(
  workflow: W,
  inputs: readonly EventInput<W>[],
  context: EventsContext,
): Promise<PreparedEvents> {
  const references: EventReference[] = [];
  const entities: OutboxEntity[] = [];
  const payloads: { name: string; bytes: Uint8Array }[] = [];
  let last = context.lastEventId;
  let inlineUnits = 0;
  for (const input of inputs) {
    const dataText = await checkedData(workflow, input, context.orderId);
    // C1: dense sequence, growing id, whatever the clock says.
    const id = nextEventId(last, context.nowMs, context.random);
    const reference = { id, sequence: context.sequence + references.length + 1, type: input.type, time: timeText(input, context) };
    const text = encodeEvent(
      {
        ...reference,
        orderId: context.orderId,
        source: workflow.source,
        ...context.trace,
      },
      dataText,
    );
    const spill = text.length > MAX_INLINE_EVENT_UNITS || inlineUnits + text.length > MAX_INLINE_TRANSACTION_UNITS;
    const payloadBlob = spill ? payloadBlobName(context.order, id) : undefined;
    if (payloadBlob !== undefined) payloads.push({ name: payloadBlob, bytes: boundedBytes(text, input.type, context.orderId) });
    else inlineUnits += text.length;
    entities.push({ id, sequence: reference.sequence, text: spill ? undefined : text, payloadBlob });
    references.push(reference);
    last = id;
  }
  return { references, entities, payloads };
}

async function checkedData(
  workflow: AnyWorkflow,
  input: { readonly type: string; readonly data: unknown },
  orderId: OrderId,
): Promise<string> {
  const { type, data } = input;
  const schema = Object.hasOwn(workflow.events, type) ? workflow.events[type] : undefined;
  if (schema === undefined) {
    throw new OutboxError(
      "unknown-event-type",
      `order ${printable(orderId)}: workflow ${workflow.name} declares no event ${printable(type)}`,
    );
  }
  const what = `the data of ${type} for order ${printable(orderId)}`;
  await validate(schema, data instanceof RawJson ? data.value : data, what, "invalid-event");
  return serializeJson(data, what, "invalid-event");
}

function timeText(input: { readonly type: string; readonly time?: string | Date }, { nowMs, orderId }: EventsContext): string {
  const { time } = input;
  if (time === undefined) return new Date(nowMs).toISOString();
  const date = new Date(time);
  if (Number.isNaN(date.getTime()) || (typeof time === "string" && !RFC_3339.test(time))) {
    throw new OutboxError(
      "invalid-event",
      `the time of ${input.type} for order ${printable(orderId)} is ${printable(String(time), 40)}: an ISO 8601 date and time with seconds and zone is needed`,
    );
  }
  return typeof time === "string" ? time : date.toISOString();
}

function boundedBytes(text: string, type: string, orderId: OrderId): Uint8Array {
  const bytes = eventBytes(text);
  if (bytes.length > MAX_EVENT_BYTES) {
    throw new OutboxError(
      "too-large",
      `the event ${type} for order ${printable(orderId)} has ${bytes.length} bytes, at most ${MAX_EVENT_BYTES} are allowed. Store the document yourself and commit its address.`,
    );
  }
  return bytes;
}
