/** The gateway of notifications over real HTTP: what each answer means for the event. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { httpGateway } from "../../src/shipment/http-gateway.ts";

const NOTIFICATION = { id: "01JZZZZZZZZZZZZZZZZZZZZZZZ", orderId: "o-1", text: "Your parcel was delivered." };
const never = new AbortController().signal;

let server: Server;
let url: string;
let answer: { status: number; headers: Readonly<Record<string, string>> } | "none";
let seen: { readonly authorization: string | undefined; readonly key: unknown }[];

beforeAll(async () => {
  server = createServer((request, response) => {
    seen.push({ authorization: request.headers.authorization, key: request.headers["idempotency-key"] });
    request.resume();
    if (answer === "none") request.socket.destroy();
    else response.writeHead(answer.status, answer.headers).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/send`;
});

beforeEach(() => {
  seen = [];
  answer = { status: 204, headers: {} };
});

afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

test.each([200, 202, 204])("%d: sent", async (status) => {
  answer = { status, headers: {} };
  await httpGateway({ url, token: "t-1" })(NOTIFICATION, never);
  expect(seen).toEqual([{ authorization: "Bearer t-1", key: NOTIFICATION.id }]);
});

test.each([
  [301, "RetryableError"],
  [302, "RetryableError"],
  [307, "RetryableError"],
  [400, "PermanentError"],
  [401, "RetryableError"],
  [403, "RetryableError"],
  [404, "PermanentError"],
  [408, "RetryableError"],
  [409, "PermanentError"],
  [410, "PermanentError"],
  [422, "PermanentError"],
  [425, "RetryableError"],
  [429, "RetryableError"],
  [500, "RetryableError"],
  [503, "RetryableError"],
])("%d is a %s", async (status, name) => {
  answer = { status, headers: { location: url } };
  const sent = httpGateway({ url })(NOTIFICATION, never);
  await expect(sent).rejects.toMatchObject({ name, message: expect.stringContaining(`the notification gateway answered ${status}`) });
  // Redirects are not followed.
  expect(seen).toHaveLength(1);
});

test.each([429, 503])("C30: %d with Retry-After: not before that", async (status) => {
  answer = { status, headers: { "retry-after": "7" } };
  await expect(httpGateway({ url })(NOTIFICATION, never)).rejects.toMatchObject({ name: "RetryableError", retryAfterMs: 7_000 });
});

test("no answer is a RetryableError", async () => {
  answer = "none";
  await expect(httpGateway({ url })(NOTIFICATION, never)).rejects.toMatchObject({
    name: "RetryableError",
    message: expect.stringContaining("the notification gateway did not answer"),
  });
});

test.each(["", undefined])("the token %j: none is sent", async (token) => {
  await httpGateway({ url, token })(NOTIFICATION, never);
  expect(seen).toEqual([{ authorization: undefined, key: NOTIFICATION.id }]);
});
