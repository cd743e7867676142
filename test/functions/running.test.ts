/** The end of the process, with real time: the two stages together have less than the 5 s of the host. */
import { expect, test } from "vitest";
import { aborting, stopRunning, tracked } from "../../src/functions/app/running.ts";

test("C32: what ends by itself is not aborted; what does not is; what ignores that is left", async () => {
  await expect(tracked(() => Promise.reject(new Error("for the caller")))).rejects.toThrow("for the caller");
  const quick = tracked(() => Promise.resolve());
  await stopRunning();
  expect(aborting.aborted).toBe(false);
  await quick;

  const order: string[] = [];
  const slow = tracked(
    () =>
      new Promise<void>((resolve) => {
        aborting.addEventListener("abort", () => resolve(void order.push("aborted")), { once: true });
      }),
  );
  void tracked(() => new Promise<void>(() => {}));
  await stopRunning();
  order.push("stopped");
  await slow;
  expect(order).toEqual(["aborted", "stopped"]);
});
