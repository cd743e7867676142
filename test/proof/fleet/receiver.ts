/**
 * The system that the handlers of a fleet call: it outlives them, and the order of its records is the order in which events arrived. As design
 * §5 asks of such a system, it refuses a sequence older than one it has seen, but only from workers that were frozen: nobody else may be late.
 */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { HandledRecord } from "../../../src/local/handled-record.ts";

/** The worker of a fleet tells all there is to tell. */
export type ReceivedRecord = Required<HandledRecord>;

export interface ReceiverOptions {
  /** How long a call lasts. */
  readonly handlerMs: number;
  readonly wasFrozen: (worker: string) => boolean;
  readonly onArrival: (record: ReceivedRecord) => void;
}

export class Receiver {
  readonly records: ReceivedRecord[] = [];
  /** Calls of frozen workers that came too late. */
  fenced = 0;
  /** Calls that are not answered yet, and whose they are. */
  readonly #open = new Set<ReceivedRecord>();
  readonly #options: ReceiverOptions;
  readonly #latest = new Map<string, number>();
  readonly #server: Server;

  constructor(options: ReceiverOptions) {
    this.#options = options;
    this.#server = createServer((request, response) => {
      void this.#receive(request).then(
        (status) => response.writeHead(status).end(),
        () => response.destroy(),
      );
    });
  }

  isCalledBy(worker: string, orderId: string): boolean {
    return [...this.#open].some((record) => record.worker === worker && record.orderId === orderId);
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #receive(request: IncomingMessage): Promise<number> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const record = JSON.parse(Buffer.concat(chunks).toString("utf8")) as ReceivedRecord;
    const latest = this.#latest.get(record.orderId) ?? 0;
    if (record.sequence < latest && this.#options.wasFrozen(record.worker)) {
      this.fenced += 1;
      return 200;
    }
    this.#latest.set(record.orderId, Math.max(latest, record.sequence));
    this.records.push(record);
    this.#options.onArrival(record);
    this.#open.add(record);
    await delay(this.#options.handlerMs);
    this.#open.delete(record);
    return 200;
  }
}
