/** An answer that breaks off in the middle, over a real connection. */
import { inject, test } from "vitest";
import { encodeOrderId, parseOrderId } from "../../../src/core/order-id.ts";
import { connectStorage } from "../../../src/storage/connect.ts";
import { failure } from "../../contract/harness.ts";
import { connectTestStorage } from "../../support/azurite-storage.ts";
import { DisturbingProxy, SHARES } from "./disturbing-proxy.ts";

const order = encodeOrderId(parseOrderId("o-1"));

/** Draws `reset-in-answer` every time. */
const RESET_IN_ANSWER = SHARES["half-open"] + SHARES["reset-in-request"] + SHARES["reset-in-answer"] / 2;

test("C8: an answer that breaks off is unavailable, as any other broken connection, not an error of storage", async () => {
  const { prefix, orders } = await connectTestStorage();
  // Long enough that the break comes after the headers.
  const entity = { sequence: 0, lastEventId: undefined, state: JSON.stringify("x".repeat(20_000)), commitTokens: [] };
  await orders.commit({ order, etag: undefined, entity, outbox: [], entities: [] });
  await using proxy = new DisturbingProxy(() => RESET_IN_ANSWER);
  const storage = connectStorage({ connectionString: await proxy.front(inject("azurite")), prefix });
  await failure(storage.orders.readOrder(order), "unavailable");
});
