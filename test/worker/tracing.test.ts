/** Traces from a producer's span to its handlers, with a real SDK. */
import { context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, type Span } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor, type ReadableSpan } from "@opentelemetry/sdk-trace-base";
import { afterEach, describe, expect, test } from "vitest";
import { decodeEvent, type StoredEvent } from "../../src/core/event.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { activeTraceContext } from "../../src/system/tracing.ts";
import { deliver, live } from "./operator-support.ts";
import { key, Scene, workflow } from "./round-support.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const SECRET = 4_111_111;

let provider: BasicTracerProvider | undefined;

afterEach(async () => {
  await provider?.shutdown();
  provider = undefined;
  trace.disable();
  context.disable();
  propagation.disable();
});

function startSdk(): InMemorySpanExporter {
  const exporter = new InMemorySpanExporter();
  provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  return exporter;
}

/** A span of the application's own around something. */
async function traced<Result>(name: string, run: (span: Span) => Promise<Result>): Promise<Result> {
  return trace.getTracer("app").startActiveSpan(name, async (span) => {
    try {
      return await run(span);
    } finally {
      span.end();
    }
  });
}

/** What a webhook would send along. */
function headers(): Record<string, string> {
  const carrier: Record<string, string> = {};
  propagation.inject(context.active(), carrier);
  return carrier;
}

function processSpans(exporter: InMemorySpanExporter): ReadableSpan[] {
  return exporter.getFinishedSpans().filter(({ instrumentationScope }) => instrumentationScope.name === "ordered-outbox");
}

async function outboxEvent(scene: Scene): Promise<StoredEvent> {
  const { outbox } = await scene.storage.orders.readOutbox(key("o-1"));
  return decodeEvent(outbox[0]!.text!);
}

describe("with an SDK", () => {
  test("commit, handler and what the handler does are one trace; every start is a span, failed ones say so", async () => {
    const exporter = startSdk();
    const scene = new Scene();
    const inside: unknown[] = [];
    let failed = false;
    scene.onHandle = async (entry, { context: { attempt } }) => {
      await scene.clock.sleep(5);
      await traced(`work ${attempt}`, async () => void inside.push(headers()["traceparent"]));
      if (!entry.startsWith("erp") || failed) return;
      failed = true;
      throw new TypeError("erp is down");
    };
    const root = await traced("checkout", async (span) => {
      await scene.commit("o-1", [SECRET]);
      return span.spanContext();
    });
    await live(scene, scene.worker([scene.subscription("erp"), scene.subscription("mail")]), 15_000);
    const spans = processSpans(exporter);
    const told = spans.map(({ name, kind, status, attributes }) => [name, kind, status.code, attributes["ordered_outbox.attempt"]]);
    expect(told).toHaveLength(3);
    expect(told).toEqual(
      expect.arrayContaining([
        ["process erp", SpanKind.CONSUMER, SpanStatusCode.ERROR, 1],
        ["process erp", SpanKind.CONSUMER, SpanStatusCode.UNSET, 2],
        ["process mail", SpanKind.CONSUMER, SpanStatusCode.UNSET, 1],
      ]),
    );
    for (const span of spans) {
      expect(span.parentSpanContext).toMatchObject({ traceId: root.traceId, spanId: root.spanId, isRemote: true });
      expect(span.attributes).toMatchObject({
        "messaging.system": "ordered_outbox",
        "messaging.operation.type": "process",
        "messaging.destination.name": "test",
        "messaging.destination.subscription.name": span.name.slice("process ".length),
        "ordered_outbox.order.id": "o-1",
        "ordered_outbox.event.type": "step",
        "ordered_outbox.event.sequence": 1,
      });
      expect(span.links).toEqual([]);
    }
    const failure = spans.find(({ status }) => status.code === SpanStatusCode.ERROR)!;
    expect(failure.status.message).toBe("TypeError: erp is down");
    expect(failure.attributes["error.type"]).toBe("TypeError");
    // What the handlers did are children of their starts, and their headers say so.
    const work = exporter.getFinishedSpans().filter(({ name }) => name.startsWith("work "));
    expect(work).toHaveLength(3);
    for (const done of work) {
      expect(spans.map((span) => span.spanContext().spanId)).toContain(done.parentSpanContext?.spanId);
      expect(inside).toContain(`00-${root.traceId}-${done.spanContext().spanId}-01`);
    }
    // Never payloads.
    const everything = spans.map(({ name, attributes, status, events, links }) => ({ name, attributes, status, events, links }));
    expect(JSON.stringify(everything)).not.toContain(String(SECRET));
  });

  test("traceparent and tracestate of the active span are in the event, byte for byte through relay and archive", async () => {
    startSdk();
    const scene = new Scene();
    const carrier = { traceparent: TRACEPARENT, tracestate: "vendor=a,other=b" };
    await context.with(propagation.extract(ROOT_CONTEXT, carrier), () => scene.commit("o-1", [1]));
    const { text } = await outboxEvent(scene);
    expect(decodeEvent(text)).toMatchObject(carrier);
    let handled: StoredEvent | undefined;
    scene.onEvent = (event) => (handled = event);
    await deliver(scene, scene.worker());
    expect(handled).toMatchObject({ ...carrier, text });
    const [archivedBlob] = scene.storage.blobEntries("archive");
    expect(new TextDecoder().decode(archivedBlob![1].bytes)).toBe(text);
  });

  test("the caller's own trace context is stronger than the active span", async () => {
    startSdk();
    const scene = new Scene();
    const outbox = createOutbox({ workflow, storage: scene.storage, clock: scene.clock });
    await traced("checkout", () =>
      outbox.commit("o-1", () => ({ state: { committed: 1 }, events: [{ type: "step", data: { n: 1 } }] }), { traceparent: TRACEPARENT }),
    );
    expect((await outboxEvent(scene)).traceparent).toBe(TRACEPARENT);
    expect(await outboxEvent(scene)).not.toHaveProperty("tracestate");
  });

  test("a span around the worker is linked; without a trace context in the event it is the parent", async () => {
    const exporter = startSdk();
    const scene = new Scene();
    await traced("checkout", () => scene.commit("o-1", [1]));
    await scene.commit("o-2", [2]);
    const worker = scene.worker();
    const invocation = await traced("invocation", async (span) => {
      await worker.handle("o-1");
      await worker.handle("o-2");
      return span.spanContext();
    });
    const [first, second] = processSpans(exporter);
    expect(first?.links.map((link) => link.context.spanId)).toEqual([invocation.spanId]);
    expect(first?.parentSpanContext?.spanId).not.toBe(invocation.spanId);
    expect(second?.links).toEqual([]);
    expect(second?.parentSpanContext?.spanId).toBe(invocation.spanId);
  });

  test.each(["00-x", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", `00-${"0".repeat(32)}-b7ad6b7169203331-01`])(
    "a stored traceparent of %s starts a trace of its own",
    async (traceparent) => {
      const exporter = startSdk();
      const scene = new Scene();
      await scene.commit("o-1", [1]);
      const [row] = scene.storage.rows(key("o-1")).filter(({ rowKey }) => rowKey.startsWith("outbox:"));
      const properties = Object.fromEntries(
        Object.entries(row!.properties).map(([name, value]) => [
          name,
          typeof value === "string" ? value.replace(',"datacontenttype"', `,"traceparent":"${traceparent}","datacontenttype"`) : value,
        ]),
      );
      scene.storage.putRow(key("o-1"), row!.rowKey, properties);
      await deliver(scene, scene.worker());
      expect(scene.log).toEqual(["audit E1"]);
      expect(processSpans(exporter).map(({ parentSpanContext }) => parentSpanContext)).toEqual([undefined]);
    },
  );

  test("a handler that takes too long ends its span with that error", async () => {
    const exporter = startSdk();
    const scene = new Scene();
    scene.onHandle = () => new Promise(() => undefined);
    await scene.commit("o-1", [1]);
    await scene.until(scene.worker([scene.subscription("audit", { retry: { shortStarts: 1, timeoutMs: 1_000 } })]).handle("o-1"));
    expect(processSpans(exporter).map(({ status }) => status.message)).toEqual(["timeout: the handler of audit took longer than 1000 ms"]);
  });
});

describe("without an SDK", () => {
  test("no trace context is invented, neither in the event nor in what the handler sends; nothing more is stored or asked for", async () => {
    const scene = new Scene();
    const sent: unknown[] = [];
    scene.onHandle = () => void sent.push(headers(), activeTraceContext());
    await scene.commit("o-1", [1]);
    expect(await outboxEvent(scene)).not.toHaveProperty("traceparent");
    expect(await outboxEvent(scene)).not.toHaveProperty("tracestate");
    await deliver(scene, scene.worker());
    expect(sent).toEqual([{}, undefined]);
  });

  test("with a propagator alone: what the event carries is handed on, and nothing else", async () => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    propagation.setGlobalPropagator(new W3CTraceContextPropagator());
    const scene = new Scene();
    const sent: unknown[] = [];
    scene.onHandle = () => void sent.push(headers());
    await scene.commit("o-1", [1]);
    await deliver(scene, scene.worker());
    const outbox = createOutbox({ workflow, storage: scene.storage, clock: scene.clock });
    await outbox.commit("o-1", () => ({ state: { committed: 1 }, events: [{ type: "step", data: { n: 1 } }] }), {
      traceparent: TRACEPARENT,
      tracestate: "vendor=a",
    });
    await deliver(scene, scene.worker());
    expect(sent).toEqual([{}, { traceparent: TRACEPARENT, tracestate: "vendor=a" }]);
  });
});

test.each([
  [{ tracestate: "vendor=a" }],
  [{ traceparent: TRACEPARENT, tracestate: "" }],
  [{ traceparent: TRACEPARENT, tracestate: "x".repeat(513) }],
  [{ traceparent: TRACEPARENT, tracestate: "a=b\r\nx-forged: 1" }],
])("a tracestate that is none is refused: %j", async (options) => {
  const scene = new Scene();
  const outbox = createOutbox({ workflow, storage: scene.storage, clock: scene.clock });
  await expect(outbox.commit("o-1", () => ({ state: { committed: 0 }, events: [] }), options)).rejects.toMatchObject({
    code: "invalid-option",
  });
  expect(scene.storage.calls).toEqual([]);
});
