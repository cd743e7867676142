/** Events, webhooks in surroundings of a test's own, and receivers that behave as the test says. */
import { lookup as systemLookup } from "node:dns";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { createServer as createNetServer, type AddressInfo, type LookupFunction, type Server as NetServer, type Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import { generate } from "selfsigned";
import { onTestFinished, vi } from "vitest";
import { z } from "zod";
import { decodeEvent, encodeEvent, type StoredEvent } from "../../src/core/event.ts";
import type { EventId } from "../../src/core/event-id.ts";
import { parseOrderId } from "../../src/core/order-id.ts";
import { defineWorkflow } from "../../src/core/workflow.ts";
import { systemClock } from "../../src/system/clock.ts";
import { webhookSubscription, type WebhookDefinition, type WebhookSubscription } from "../../src/webhook/webhook-subscription.ts";
import type { WebhookSurroundings } from "../../src/webhook/webhook-subscription.ts";

export const workflow = defineWorkflow({
  name: "webhooks",
  state: z.unknown(),
  events: { shipped: z.unknown(), document: z.unknown() },
});

export function secretOf(letter: string): string {
  return `whsec_${Buffer.alloc(32, letter).toString("base64")}`;
}

export const SECRET = secretOf("a");

let events = 0;

export function eventOf(dataText = '{"n":1}', traceparent?: string): StoredEvent {
  events += 1;
  const head = {
    id: `01JZ00000000000000${String(events).padStart(8, "0")}` as EventId,
    orderId: parseOrderId("o-1"),
    sequence: events,
    type: "shipped",
    source: "/webhooks",
    time: "2026-01-01T00:00:00.000Z",
    ...(traceparent === undefined ? {} : { traceparent }),
  };
  return decodeEvent(encodeEvent(head, dataText));
}

type Options = Partial<WebhookDefinition<typeof workflow>>;

/** May reach the receivers of this file; they are at a loopback address. */
export function webhookTo(url: string, options: Options = {}, surroundings: Partial<WebhookSurroundings> = {}): WebhookSubscription {
  const secret = options.secrets === undefined ? { secret: SECRET } : {};
  const webhook = webhookSubscription(
    workflow,
    { name: "partner", url, allowHttp: true, allowPrivateAddresses: true, ...secret, ...options },
    undefined,
    { clock: systemClock, lookup: systemLookup, minTimeoutMs: 1, ...surroundings },
  );
  onTestFinished(() => webhook.close());
  return webhook;
}

export async function deliver(
  webhook: WebhookSubscription,
  event: StoredEvent = eventOf(),
  signal: AbortSignal = new AbortController().signal,
): Promise<void> {
  await webhook.handle({ ...event, data: undefined }, { subscription: webhook.name, attempt: 1, signal });
}

/** What a delivery failed with. */
export async function failureOf(delivery: Promise<void>): Promise<Error> {
  return delivery.then(
    () => {
      throw new Error("delivered");
    },
    (error: unknown) => error as Error,
  );
}

export interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

interface Connections {
  /** All there ever were. */
  readonly opened: () => number;
  readonly open: () => ReadonlySet<Socket>;
}

export interface Receiver extends Connections {
  readonly url: string;
  readonly port: number;
  readonly received: readonly Received[];
}

type Answer = (response: ServerResponse, request: Received, index: number) => void;

/** Takes whole requests and answers each. It ends with the test. */
export async function startReceiver(answer: Answer = (response) => void response.writeHead(204).end()): Promise<Receiver> {
  const received: Received[] = [];
  const server = createServer(record(received, answer));
  const { port, ...connections } = await listen(server);
  return { url: `http://127.0.0.1:${port}/hook`, port, received, ...connections };
}

export const TLS_NAME = "receiver.example";

/** The same with TLS; its name is {@link TLS_NAME}, its address must be looked up with {@link loopbackLookup}. */
export async function startTlsReceiver(
  answer: Answer = (response) => void response.writeHead(204).end(),
): Promise<Receiver & { ca: string }> {
  const received: Received[] = [];
  const { private: key, cert } = await generate([{ name: "commonName", value: TLS_NAME }], {
    keyType: "ec",
    algorithm: "sha256",
    extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: TLS_NAME }] }],
  });
  const { port, ...connections } = await listen(createTlsServer({ key, cert }, record(received, answer)));
  return { url: `https://${TLS_NAME}:${port}/hook`, port, received, ca: cert, ...connections };
}

/** Speaks no HTTP but what the test writes. */
export async function startRaw(onConnection: (socket: Socket, index: number) => void): Promise<{ readonly port: number } & Connections> {
  let index = 0;
  return listen(createNetServer((socket) => onConnection(socket, index++)));
}

export const loopbackLookup: LookupFunction = (_hostname, _options, callback) => callback(null, [{ address: "127.0.0.1", family: 4 }]);

function record(received: Received[], answer: Answer): RequestListener {
  return (request, response) => {
    buffer(request).then(
      (body) => {
        const one = { method: request.method!, url: request.url!, headers: request.headers, body };
        received.push(one);
        answer(response, one, received.length - 1);
      },
      () => undefined,
    );
  };
}

async function listen(server: Server | NetServer): Promise<{ readonly port: number } & Connections> {
  const sockets = new Set<Socket>();
  let opened = 0;
  server.on("connection", (socket: Socket) => {
    opened += 1;
    sockets.add(socket);
    // A client that gives up resets the connection; that is the business of the test, not an accident.
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
  });
  // Longer than a test: no connection ends in between by itself.
  if ("keepAliveTimeout" in server) server.keepAliveTimeout = 60_000;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return { port: (server.address() as AddressInfo).port, opened: () => opened, open: () => sockets };
}

/** Waits for what other ends of connections see. */
export function until(condition: () => boolean): Promise<unknown> {
  return vi.waitUntil(condition, { timeout: 20_000, interval: 5 });
}
