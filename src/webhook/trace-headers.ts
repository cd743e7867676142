import { context, propagation } from "@opentelemetry/api";

/** As an event has them. */
interface EventTrace {
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
}

/**
 * W3C trace context for the receiver: of the span that is active here, or else the event's own. Whatever else a propagator adds (baggage
 * above all) is the sender's business and stays here.
 */
export function traceHeaders({ traceparent, tracestate }: EventTrace): Readonly<Record<string, string>> {
  const carrier: Record<string, unknown> = {};
  propagation.inject(context.active(), carrier);
  const { traceparent: active, tracestate: activeState } = carrier;
  if (typeof active === "string") return headers(active, typeof activeState === "string" ? activeState : undefined);
  return traceparent === undefined ? {} : headers(traceparent, tracestate);
}

/** A state means nothing without its parent. */
function headers(traceparent: string, tracestate: string | undefined): Readonly<Record<string, string>> {
  return { traceparent, ...(tracestate === undefined ? {} : { tracestate }) };
}
