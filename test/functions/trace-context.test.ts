import { InvocationContext, PreInvocationContext } from "@azure/functions";
import { trace } from "@opentelemetry/api";
import { NodeTracerProvider } from "@opentelemetry/sdk-trace-node";
import { afterAll, expect, test } from "vitest";
import { continueTrace } from "../../src/functions/app/trace-context.ts";

const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const provider = new NodeTracerProvider();
provider.register();
afterAll(() => provider.shutdown());

function invoked(traceParent: string | undefined): Promise<string | undefined> {
  const context = new InvocationContext({
    functionName: "wakeUps",
    invocationId: "1",
    ...(traceParent === undefined ? {} : { traceContext: { traceParent } }),
  });
  const invocation = new PreInvocationContext({
    inputs: [],
    functionCallback: () => trace.getTracer("test").startActiveSpan("inside", async (span) => span.spanContext().traceId),
    hookData: {},
    invocationContext: context,
  });
  continueTrace(invocation);
  return Promise.resolve(invocation.functionHandler([], context)) as Promise<string | undefined>;
}

test("spans inside an invocation belong to the trace of its trigger", async () => {
  expect(await invoked(`00-${TRACE_ID}-b7ad6b7169203331-01`)).toBe(TRACE_ID);
});

test("without one they begin their own", async () => {
  expect(await invoked(undefined)).toMatch(/^(?!0af7651916cd43dd8448eb211c80319c)[0-9a-f]{32}$/);
});
