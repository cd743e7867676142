/** A few hundred of the schedules of `npm run proof`; a violation prints the command that shows it again. */
import { describe, expect, test } from "vitest";
import { Ledger } from "./ledger.ts";
import { proveSchedules } from "./prove.ts";
import type { Scenario } from "./scenario.ts";
import { World } from "./world.ts";

const CALM: Scenario = { commits: [{ producer: 0, order: 0, events: ["step", "other"] }], failures: [], choices: [], incidents: [] };

async function traceOf(scenario: Scenario): Promise<readonly string[]> {
  const world = new World(scenario);
  await world.run();
  // Leases have random ids.
  return world.scheduler.trace.map((line) => line.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, "lease"));
}

test(
  "G1, G2, G3, G5, G6: the real code keeps them in any order of calls, answers, timers and accidents",
  { timeout: 180_000 },
  async () => {
    const { violations, figures } = await proveSchedules({ seed: 1, small: true });
    expect(violations.map(({ replay, text }) => `${replay}\n${text}`)).toEqual([]);
    expect(Object.fromEntries(figures)["schedules of the real code"]).toBe(200);
  },
);

describe("the scheduler", () => {
  test("runs a schedule the same way each time", async () => {
    const scenario: Scenario = {
      ...CALM,
      choices: [0, 3, 1, 0, 2, 5, 0, 1],
      incidents: [
        { step: 20, what: "repeat", target: 1 },
        { step: 24, what: "lose-answer", target: 0 },
        { step: 35, what: "kill", target: 0 },
      ],
    };
    expect(await traceOf(scenario)).toEqual(await traceOf(scenario));
  });

  test("handles each event once when nothing goes wrong", async () => {
    const starts = (await traceOf(CALM)).filter((line) => line.includes("starts event"));
    expect(starts.map((line) => line.replace(/^w\d\.\d: /, ""))).toEqual([
      "audit starts event 1 of o-1",
      "mail starts event 1 of o-1",
      "audit starts event 2 of o-1",
    ]);
  });

  test("a killed process's request arrives all the same", async () => {
    // The producer dies with its transaction on the way.
    const world = new World({ ...CALM, incidents: [{ step: 8, what: "kill", target: 2 }] });
    await world.run();
    expect(world.scheduler.trace.indexOf("p1: orders.commit")).toBeGreaterThan(world.scheduler.trace.indexOf("p1 dies"));
    expect(world.ledger.timesCommitted(0)).toBe(1);
  });
});

test("a ledger that nobody told of a commit calls its handler's start a violation", () => {
  const world = new World(CALM);
  const ledger = new Ledger(world.storage);
  ledger.onStart("audit", "o-1" as Parameters<Ledger["onStart"]>[1], 1, "01KDVDNA00EQ6RHN69SJD169RC" as Parameters<Ledger["onStart"]>[3]);
  expect(() => ledger.assertSound()).toThrow("G1");
});
