/** A tiny HTTP endpoint for the probes of a container platform: `/health/live` and `/health/ready`. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describeError } from "../core/errors.ts";
import { silentLogger, type Logger } from "../core/logger.ts";
import { wholeNumber } from "../core/options.ts";
import type { HostStatus } from "./host.ts";

export interface HealthServerOptions {
  /** TCP port; 0 takes a free one. Required; 0 to 65,535. */
  readonly port: number;
  /** Address to listen at. Default: all interfaces, for probes come from outside of the container. */
  readonly host?: string;
  /** From {@link import("./host.ts").WorkerHost.status}. */
  readonly status: () => HostStatus;
  /**
   * How old the last turn of the poll loop may be while the host counts as alive. Default 120,000; 60,000 (the loop's longest pause and a
   * hanging call fit in) to 3,600,000.
   */
  readonly staleAfterMs?: number;
  /** Default: silent. */
  readonly logger?: Logger;
}

export interface HealthServer extends AsyncDisposable {
  /** The port it listens at. */
  readonly port: number;
  /** Closes the port and its connections, also those kept alive or in the middle of a request. Can be called again. */
  close(): Promise<void>;
}

/**
 * - `GET /health/live`: 200 while the poll loop turns or the host is stopping, else 503: restart it. A queue that is down is no reason.
 * - `GET /health/ready`: 200 while the host receives wake-ups, 503 once it is stopping.
 *
 * The answers tell nothing about orders, accounts or errors: anybody who reaches the port can read them.
 *
 * @throws `invalid-option`; the error of Node if the port can't be opened
 */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  const { status, host, logger = silentLogger } = options;
  const port = wholeNumber("port", options.port, { default: 0, min: 0, max: 65_535 });
  const staleAfterMs = wholeNumber("staleAfterMs", options.staleAfterMs, { default: 120_000, min: 60_000, max: 3_600_000 });

  const checks: Readonly<Record<string, (status: HostStatus) => boolean>> = {
    "/health/live": ({ state, sinceLastPollMs }) => state === "stopping" || (state === "running" && sinceLastPollMs <= staleAfterMs),
    "/health/ready": ({ state }) => state === "running",
  };

  function answer(request: IncomingMessage, response: ServerResponse): void {
    const path = (request.url ?? "").split("?", 1)[0]!;
    const check = Object.hasOwn(checks, path) ? checks[path] : undefined;
    if (check === undefined) return send(response, 404, { error: "not found" });
    if (request.method !== "GET") return send(response.setHeader("allow", "GET"), 405, { error: "only GET is allowed" });
    const now = status();
    const healthy = check(now);
    const { state, inFlight, sinceLastPollMs } = now;
    send(response, healthy ? 200 : 503, { healthy, state, inFlight, sinceLastPollMs: Math.round(sinceLastPollMs) });
  }

  const server = createServer(answer);
  server.listen(port, host);
  await once(server, "listening");
  // For example no file descriptor left for a connection: a probe fails then, the host goes on.
  server.on("error", (error) => logger.warn("the health endpoint has a problem", { error: describeError(error) }));

  let closed: Promise<void> | undefined;
  async function close(): Promise<void> {
    closed ??= new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
    await closed;
  }
  return { port: (server.address() as AddressInfo).port, close, [Symbol.asyncDispose]: close };
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { "content-type": "application/json; charset=utf-8", "cache-control": "no-store" });
  response.end(`${JSON.stringify(body)}\n`);
}
