/** What runs in an invocation belongs to the trace of its trigger, as the host knows it. */
import type { PreInvocationContext } from "@azure/functions";
import { context, propagation, ROOT_CONTEXT } from "@opentelemetry/api";

/** For `app.hook.preInvocation`. Without a tracer provider it changes nothing. */
export function continueTrace(invocation: PreInvocationContext): void {
  const { traceParent, traceState } = invocation.invocationContext.traceContext ?? {};
  if (traceParent === undefined) return;
  const parent = propagation.extract(ROOT_CONTEXT, { traceparent: traceParent, tracestate: traceState });
  const handler = invocation.functionHandler;
  invocation.functionHandler = (...inputs) => context.with(parent, () => handler(...inputs));
}
