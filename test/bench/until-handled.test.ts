import { expect, test } from "vitest";
import { untilHandled, type RunningHost, type Run } from "./until-handled.ts";

function runOf(over: Partial<Run<number>>, stopped: string[] = []): Run<number> {
  return {
    name: "a run",
    events: 2,
    deadlineMs: 60_000,
    startHosts: () => [host(stopped)],
    work: async () => {},
    result: ({ ms }) => ms,
    ...over,
  };
}

function host(stopped: string[], over: Partial<RunningHost> = {}): RunningHost {
  return { inFlight: () => 0, stop: () => Promise.resolve(stopped.push("stopped")), ...over };
}

test("ends with the last event, once nothing is in hand, and stops the hosts after the result", async () => {
  const order: string[] = [];
  let inFlight = 2;
  await untilHandled(
    runOf({
      startHosts: (handle) => {
        handle();
        handle();
        setImmediate(() => (inFlight = 0));
        return [host(order, { inFlight: () => inFlight })];
      },
      result: () => order.push(`in flight: ${inFlight}`),
    }),
  );
  expect(order).toEqual(["in flight: 0", "stopped"]);
});

test.each<[string, Partial<Run<number>>, string]>([
  ["the deadline", { deadlineMs: 1 }, "a run: 0 of 2 events were handled within 1 ms"],
  ["an error of the work", { work: () => Promise.reject(new Error("no commit")) }, "no commit"],
])("%s ends it", async (_name, over, message) => {
  const stopped: string[] = [];
  await expect(untilHandled(runOf(over, stopped))).rejects.toThrow(message);
  expect(stopped).toEqual(["stopped"]);
});

test("the first error of a host ends it", async () => {
  const stopped: string[] = [];
  const failed = Promise.reject(new Error("no lease"));
  await expect(untilHandled(runOf({ startHosts: () => [host(stopped, { failed })] }))).rejects.toThrow("no lease");
  expect(stopped).toEqual(["stopped"]);
});
