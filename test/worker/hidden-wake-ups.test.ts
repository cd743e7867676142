import { expect, test } from "vitest";
import { parseOrderId, type OrderId } from "../../src/core/order-id.ts";
import { HiddenWakeUps } from "../../src/worker/hidden-wake-ups.ts";
import { ManualClock } from "../support/manual-clock.ts";

const hide = async (): Promise<boolean> => true;

function order(number: number): OrderId {
  return parseOrderId(`o-${number}`);
}

test("its memory is bounded: beyond 10,000 orders the oldest is forgotten, which costs one more hidden copy (C10)", async () => {
  const hidden = new HiddenWakeUps(new ManualClock());
  for (let number = 0; number < 10_001; number++) await hidden.hide(order(number), `m-${number}`, 60_000, hide);

  expect(await hidden.hide(order(1), "again", 60_000, hide)).toBe(false);
  expect(await hidden.hide(order(10_000), "again", 60_000, hide)).toBe(false);
  expect(await hidden.hide(order(0), "again", 60_000, hide)).toBe(true);
});

test("a copy counts until the moment at which it may be visible, not longer", async () => {
  const clock = new ManualClock();
  const hidden = new HiddenWakeUps(clock);
  const orderId = order(1);
  await hidden.hide(orderId, "m-1", 10_000, hide);
  await clock.advance(9_999);
  expect(await hidden.hide(orderId, "m-2", 10_000, hide)).toBe(false);
  await clock.advance(1);
  expect(await hidden.hide(orderId, "m-2", 10_000, hide)).toBe(true);
});

test("those who wait for a hiding that fails: one takes its place, the others rely on that one", async () => {
  const hidden = new HiddenWakeUps(new ManualClock());
  const orderId = order(1);
  const first = Promise.withResolvers<boolean>();
  const attempts: string[] = [];
  const answers = ["m-1", "m-2", "m-3", "m-4"].map((messageId) =>
    hidden.hide(orderId, messageId, 10_000, () => {
      attempts.push(messageId);
      return messageId === "m-1" ? first.promise : Promise.resolve(true);
    }),
  );
  first.resolve(false);

  expect(await Promise.all(answers)).toEqual([true, true, false, false]);
  expect(attempts).toEqual(["m-1", "m-2"]);
});
