import { Agent, request } from "node:http";
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { afterEach, describe, expect, test } from "vitest";
import type { HostStatus } from "../../src/worker/host.ts";
import { startHealthServer, type HealthServer, type HealthServerOptions } from "../../src/worker/health-server.ts";

const RUNNING: HostStatus = { state: "running", inFlight: 3, received: 5, handled: 7, lastPollAt: 1, sinceLastPollMs: 20.4 };

let server: HealthServer | undefined;
const agent = new Agent({ keepAlive: true });

afterEach(async () => {
  await server?.close();
  server = undefined;
});

async function start(status: Partial<HostStatus> = {}, options: Partial<HealthServerOptions> = {}): Promise<void> {
  server = await startHealthServer({ port: 0, host: "127.0.0.1", status: () => ({ ...RUNNING, ...status }), ...options });
}

interface Answer {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: unknown;
}

async function ask(path: string, method = "GET"): Promise<Answer> {
  const sent = request({ host: "127.0.0.1", port: server!.port, path, method, agent });
  sent.end();
  const [response] = (await once(sent, "response")) as [import("node:http").IncomingMessage];
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) text += chunk as string;
  return { status: response.statusCode, headers: response.headers, body: text === "" ? undefined : (JSON.parse(text) as unknown) };
}

describe("health endpoint (C32, C33)", () => {
  test("a running host is alive and ready, and the answers are JSON that tells nothing about orders or errors", async () => {
    await start({ lastPollError: "unavailable: https://secret-account.queue.core.windows.net" });

    for (const path of ["/health/live", "/health/ready", "/health/live?probe=1"]) {
      const { status, headers, body } = await ask(path);
      expect(status).toBe(200);
      expect(headers["content-type"]).toBe("application/json; charset=utf-8");
      expect(headers["cache-control"]).toBe("no-store");
      expect(body).toEqual({ healthy: true, state: "running", inFlight: 3, sinceLastPollMs: 20 });
    }
  });

  test.each([
    { name: "the poll loop turned just in time", status: { sinceLastPollMs: 60_000 }, live: 200, ready: 200 },
    { name: "the poll loop stands still", status: { sinceLastPollMs: 60_001 }, live: 503, ready: 200 },
    // A long grace period must not be cut short by the platform.
    { name: "the host is stopping, its loop has ended", status: { state: "stopping", sinceLastPollMs: 3_000_000 }, live: 200, ready: 503 },
    { name: "the host has stopped", status: { state: "stopped" }, live: 503, ready: 503 },
  ] as const)("$name: live $live, ready $ready", async ({ status, live, ready }) => {
    await start(status, { staleAfterMs: 60_000 });

    expect((await ask("/health/live")).status).toBe(live);
    expect((await ask("/health/ready")).status).toBe(ready);
  });

  test.each(["/", "/health", "/health/live/", "/HEALTH/LIVE", "/constructor", "/__proto__", "//health/live"])(
    "%s is not found",
    async (path) => {
      await start();

      expect((await ask(path)).status).toBe(404);
    },
  );

  test.each(["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])("%s is not allowed", async (method) => {
    await start();

    const { status, headers } = await ask("/health/live", method);
    expect(status).toBe(405);
    expect(headers["allow"]).toBe("GET");
  });

  test("close ends connections that are kept alive, can be called again and frees the port", async () => {
    await start();
    await ask("/health/live");
    const { port } = server!;

    await Promise.all([server!.close(), server!.close()]);

    server = await startHealthServer({ port, host: "127.0.0.1", status: () => RUNNING });
    expect(server.port).toBe(port);
  });

  test("a port in use is an error of the start, not a crash later", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as AddressInfo;

    await expect(startHealthServer({ port, host: "127.0.0.1", status: () => RUNNING })).rejects.toMatchObject({ code: "EADDRINUSE" });

    other.close();
    await once(other, "close");
  });

  test.each([{ port: -1 }, { port: 65_536 }, { port: 1.5 }, { staleAfterMs: 59_999 }, { staleAfterMs: 3_600_001 }])(
    "%o is refused",
    async (options) => {
      await expect(startHealthServer({ port: 0, status: () => RUNNING, ...options })).rejects.toMatchObject({ code: "invalid-option" });
    },
  );
});
