/**
 * A TCP proxy that is a bad network: it knows nothing of HTTP but that a client speaks first and the answer follows. At each request it draws
 * what becomes of it.
 */
import { createServer, connect, type AddressInfo, type Server, type Socket } from "node:net";
import type { Random } from "../../../src/local/seeded-random.ts";

export const DISTURBANCES = ["half-open", "reset-in-request", "reset-in-answer", "late", "lost-answer"] as const;
export type Disturbance = (typeof DISTURBANCES)[number];

/** Share of all requests. */
export const SHARES: Readonly<Record<Disturbance, number>> = {
  /** The connection stays open and nothing passes through it any more, in either direction. */
  "half-open": 0.001,
  /** Half of what the client has sent passes, then a reset. */
  "reset-in-request": 0.003,
  /** Half of the first piece of the answer passes, then a reset. */
  "reset-in-answer": 0.003,
  /** The answer comes 2 s later. */
  late: 0.005,
  /** The service does what it is told; instead of its answer comes a reset. */
  "lost-answer": 0.01,
};

const LATE_MS = 2_000;
/** A half-open connection is forgotten after this time, as routers do. */
const HALF_OPEN_MS = 60_000;

export interface ProxyCounts {
  requests: number;
  readonly disturbed: Record<Disturbance, number>;
}

export class DisturbingProxy implements AsyncDisposable {
  readonly counts: ProxyCounts = {
    requests: 0,
    disturbed: { "half-open": 0, "reset-in-request": 0, "reset-in-answer": 0, late: 0, "lost-answer": 0 },
  };
  /** False: everything passes. */
  disturbing = true;
  readonly #random: Random;
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #timers = new Set<NodeJS.Timeout>();

  constructor(random: Random) {
    this.#random = random;
  }

  /** The same connection string with this proxy in front of each service. */
  async front(connectionString: string): Promise<string> {
    const endpoints = [...connectionString.matchAll(/http:\/\/([^:/;]+):([0-9]+)/g)];
    let fronted = connectionString;
    for (const [endpoint, host, port] of endpoints) {
      const own = await this.#listen(host!, Number(port));
      fronted = fronted.replace(endpoint, `http://127.0.0.1:${own}`);
    }
    return fronted;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(this.#servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }

  async #listen(host: string, port: number): Promise<number> {
    const server = createServer((client) => this.#connected(client, connect(port, host)));
    this.#servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as AddressInfo).port;
  }

  #connected(client: Socket, service: Socket): void {
    for (const [socket, other] of [
      [client, service],
      [service, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    const reset = (): void => {
      client.resetAndDestroy();
      service.destroy();
    };
    let current: Disturbance | undefined;
    let answering = true;
    let dead = false;
    /** When the pieces of a late answer may pass. */
    let passesAt = 0;
    client.on("data", (bytes: Buffer) => {
      if (dead) return;
      if (answering) {
        // The first piece after an answer: a new request.
        answering = false;
        current = this.#draw();
        if (current === "half-open") {
          dead = true;
          this.#after(HALF_OPEN_MS, reset);
          return;
        }
        if (current === "reset-in-request") {
          dead = true;
          service.write(bytes.subarray(0, bytes.length / 2), () => reset());
          return;
        }
      }
      service.write(bytes);
    });
    service.on("data", (bytes: Buffer) => {
      if (dead) return;
      const first = !answering;
      answering = true;
      if (current === "lost-answer") {
        dead = true;
        return reset();
      }
      if (current === "reset-in-answer") {
        dead = true;
        client.write(bytes.subarray(0, bytes.length / 2), () => reset());
        return;
      }
      if (current === "late") {
        const now = performance.now();
        if (first) passesAt = now + LATE_MS;
        if (now < passesAt) return this.#after(passesAt - now, () => void (client.writable && client.write(bytes)));
      }
      client.write(bytes);
    });
  }

  #draw(): Disturbance | undefined {
    this.counts.requests += 1;
    if (!this.disturbing) return undefined;
    let drawn = this.#random();
    for (const disturbance of DISTURBANCES) {
      drawn -= SHARES[disturbance];
      if (drawn >= 0) continue;
      this.counts.disturbed[disturbance] += 1;
      return disturbance;
    }
    return undefined;
  }

  #after(ms: number, action: () => void): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      action();
    }, ms);
    this.#timers.add(timer);
  }
}
