/** The partner at the other end of the webhook: verifies each delivery, writes it down, and is down now and then. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { decodeEventBytes } from "../core/event.ts";
import { verifyWebhook } from "../webhook/verify-webhook.ts";
import { PARTNER } from "./audited.ts";
import { HandledLogWriter } from "./handled-log.ts";
import { dataDigest } from "./handled-record.ts";
import type { PartnerAddress } from "./messages.ts";
import { seededRandom, type Random } from "./seeded-random.ts";

/** Header that names the worker process, so that the audit can tell which repetitions a kill explains. */
export const WORKER_HEADER = "x-worker";

/** How many deliveries are refused, each to be made again. */
const REFUSED_SHARE = 0.05;

export class Partner {
  /** Deliveries that were answered with 503. */
  refused: number = 0;
  readonly #log: HandledLogWriter;
  readonly #random: Random;
  readonly #secret = `whsec_${randomBytes(32).toString("base64")}`;
  readonly #server: Server;

  constructor(handledLog: string, seed: number) {
    this.#log = new HandledLogWriter(handledLog);
    this.#random = seededRandom(seed);
    this.#server = createServer((request, response) => {
      this.#receive(request).then(
        (status) => response.writeHead(status).end(),
        () => response.destroy(),
      );
    });
  }

  async start(): Promise<PartnerAddress> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return { url: `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`, secret: this.#secret };
  }

  async stop(): Promise<void> {
    if (this.#server.listening) {
      const closed = once(this.#server, "close");
      this.#server.close();
      this.#server.closeAllConnections();
      await closed;
    }
    this.#log.close();
  }

  /** The status of the answer. */
  async #receive(request: IncomingMessage): Promise<number> {
    const body = await buffer(request);
    const verified = verifyWebhook(this.#secret, request.headers, body, { nowMs: Date.now() });
    if (!verified.ok) return 401;
    if (this.#random() < REFUSED_SHARE) {
      this.refused += 1;
      return 503;
    }
    const { orderId, id, sequence, type, time, dataText } = decodeEventBytes(body);
    const worker = String(request.headers[WORKER_HEADER]);
    this.#log.append({ subscription: PARTNER, worker, orderId, id, sequence, type, time, dataDigest: dataDigest(dataText) });
    return 204;
  }
}
