/** 1,000 calls must not grow sockets (C21). */
import { describe, expect, test } from "vitest";
import { deliver, startReceiver, until, webhookTo, type Receiver } from "./webhook-support.ts";

const CALLS = 1_000;
const AT_ONCE = 10;

function openSockets(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === "TCPSocketWrap").length;
}

/** How the calls ended, and the most connections that were open after one of them. */
async function call(receiver: Receiver): Promise<{ readonly outcomes: Readonly<Record<string, number>>; readonly most: number }> {
  const webhook = webhookTo(receiver.url);
  const outcomes: Record<string, number> = {};
  let most = 0;
  let left = CALLS;
  const one = async (): Promise<void> => {
    while (left-- > 0) {
      const outcome = await deliver(webhook).then(
        () => "delivered",
        (error: unknown) => (error as Error).name,
      );
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      most = Math.max(most, receiver.open().size);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  // Only idle connections are left, and not more than there were calls at once.
  await until(() => receiver.open().size <= AT_ONCE);
  await webhook.close();
  await until(() => receiver.open().size === 0);
  return { outcomes, most };
}

describe(`C21: ${CALLS} calls, ${AT_ONCE} at once`, () => {
  test("to a receiver that answers well: as many connections as calls at once", async () => {
    const before = openSockets();
    const receiver = await startReceiver((response) => void response.writeHead(200).end("ok"));
    const { outcomes } = await call(receiver);
    expect(outcomes).toEqual({ delivered: CALLS });
    expect(receiver.opened()).toBe(AT_ONCE);
    await until(() => openSockets() <= before);
  });

  test("to one that floods, refuses, redirects, resets and hangs up: none is left behind", async () => {
    const before = openSockets();
    const flood = Buffer.alloc(300_000, "x");
    const receiver = await startReceiver((response, _request, index) => {
      const kind = index % 6;
      if (kind === 0) response.writeHead(200).end(flood);
      else if (kind === 1) response.writeHead(500, { "content-type": "text/html" }).end(flood);
      else if (kind === 2) response.writeHead(302, { location: "/landed" }).end("elsewhere");
      else if (kind === 3) response.socket?.resetAndDestroy();
      else if (kind === 4) response.writeHead(200, { "content-length": "100" }).write("half", () => response.destroy());
      else response.writeHead(404).end();
    });
    const { outcomes, most } = await call(receiver);
    expect(outcomes).toEqual({ delivered: 333, RetryableError: 501, PermanentError: 166 });
    expect(most).toBeLessThanOrEqual(2 * AT_ONCE);
    await until(() => openSockets() <= before);
  });
});
