/**
 * Traces, through OpenTelemetry: a commit hands the active span of its producer to its events, and every start of a handler is a span.
 *
 * The span is a child of the producer's, not only linked to it: an event has one producer, each start handles one event, and so one trace tells
 * the way of a change from its commit to the last webhook, repetitions included. What is active where the worker runs (a function's
 * invocation) is linked.
 *
 * Without a TracerProvider in the application no span is made and no trace context is invented.
 */
import {
  context,
  createTraceState,
  isSpanContextValid,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type SpanContext,
} from "@opentelemetry/api";
import { describeError } from "../core/errors.ts";

/** W3C trace context (https://www.w3.org/TR/trace-context/) as an event carries it. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string | undefined;
}

export interface HandlerStart {
  readonly workflow: string;
  readonly subscription: string;
  readonly orderId: string;
  readonly eventId: string;
  readonly type: string;
  readonly sequence: number;
  /** 1 for the first start of the event, as far as starts were counted. */
  readonly attempt: number;
  /** What the event carries. */
  readonly traceparent: string | undefined;
  readonly tracestate: string | undefined;
}

const TRACER = "ordered-outbox";
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:$|-)/;
/** Longer ones need not be carried on (§3.3.1.5 there). */
const MAX_TRACESTATE_LENGTH = 512;

/** Is this what a `tracestate` header may be, of a length that everybody carries on? */
export function isTracestate(text: string): boolean {
  return text.length <= MAX_TRACESTATE_LENGTH && /^[\x20-\x7e]+$/.test(text);
}

/** The trace context of what runs now, or undefined if nothing is traced. */
export function activeTraceContext(): TraceContext | undefined {
  const active = trace.getSpanContext(context.active());
  if (active === undefined || !isSpanContextValid(active)) return undefined;
  const traceparent = `00-${active.traceId}-${active.spanId}-${(active.traceFlags & 0xff).toString(16).padStart(2, "0")}`;
  const tracestate = active.traceState?.serialize() ?? "";
  return isTracestate(tracestate) ? { traceparent, tracestate } : { traceparent };
}

/** Runs a handler inside the span of its start. Settles as it does. */
export async function inHandlerSpan<Result>(start: HandlerStart, run: () => Promise<Result>): Promise<Result> {
  const here = context.active();
  const origin = originOf(start);
  const ambient = origin === undefined ? undefined : trace.getSpanContext(here);
  const parent = origin === undefined ? here : trace.setSpanContext(here, origin);
  const span = trace.getTracer(TRACER).startSpan(
    `process ${start.subscription}`,
    {
      kind: SpanKind.CONSUMER,
      // https://opentelemetry.io/docs/specs/semconv/messaging/messaging-spans/; never anything of the payload.
      attributes: {
        "messaging.system": "ordered_outbox",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": start.workflow,
        "messaging.destination.subscription.name": start.subscription,
        "messaging.message.id": start.eventId,
        "ordered_outbox.order.id": start.orderId,
        "ordered_outbox.event.type": start.type,
        "ordered_outbox.event.sequence": start.sequence,
        "ordered_outbox.attempt": start.attempt,
      },
      links: ambient !== undefined && isSpanContextValid(ambient) ? [{ context: ambient }] : [],
    },
    parent,
  );
  try {
    return await context.with(trace.setSpan(here, span), run);
  } catch (error) {
    span.setAttribute("error.type", errorType(error));
    span.setStatus({ code: SpanStatusCode.ERROR, message: describeError(error) });
    throw error;
  } finally {
    span.end();
  }
}

/** Where the event comes from, if it says so in a way that can be read. */
function originOf({ traceparent, tracestate }: HandlerStart): SpanContext | undefined {
  const match = TRACEPARENT.exec(traceparent ?? "");
  if (match === null || match[1] === "ff") return undefined;
  const origin: SpanContext = {
    traceId: match[2]!,
    spanId: match[3]!,
    traceFlags: Number.parseInt(match[4]!, 16) & TraceFlags.SAMPLED,
    isRemote: true,
    ...(tracestate === undefined ? {} : { traceState: createTraceState(tracestate) }),
  };
  return isSpanContextValid(origin) ? origin : undefined;
}

/** The class of what was thrown; anything can be thrown. */
function errorType(error: unknown): string {
  try {
    return error instanceof Error ? error.name : typeof error;
  } catch {
    return "unknown";
  }
}
