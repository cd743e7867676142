/** The model of the protocol, explored through: G1 to G3 hold in every state, and each rule is missed when it is not kept. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { decode, encode } from "./model/codec.ts";
import { explore } from "./model/explore.ts";
import type { Model } from "./model/model.ts";
import { exploreModel } from "./model/explore-model.ts";
import { RULE_NAMES, type Rule } from "./model/rules.ts";
import { modelWith, modelWithout, SMALL } from "./model/scenarios.ts";
import { initialState } from "./model/state.ts";
import { steps } from "./model/steps.ts";
import { Visited } from "./model/visited.ts";

const MAIN = fileURLToPath(new URL("model/main.ts", import.meta.url));

/** What is broken without the rule, and the step that breaks it or after which nothing can put it right. */
const MISSED: Readonly<Record<Rule, readonly [guarantee: string, lastStep: string]>> = {
  C1: ["G1", "producer 2 sends its transaction: 1 event(s) after sequence 0"],
  C2: ["G1", "producer 1 sends its transaction: 1 event(s) after sequence 1"],
  C5: ["G1", "producer 1 dies"],
  insurance: ["G5", "producer 1 dies"],
  reconcile: ["G3", "producer 1 dies"],
  sweep: ["G3", "late arrives: createBlob 1"],
  mark: ["G3", "late arrives: createBlob 1"],
  W1: ["G6", "worker 1 dies"],
  "W2-recorded": ["G2", "worker 1 starts the handler of event 2"],
  "W2-fence": ["G3", "worker 2 counts the start of event 1 and starts its handler"],
  "W2-etag": ["G3", "worker 1 counts the start of event 1 and starts its handler"],
  "W2-ghost": ["G3", "worker 1 counts the start of event 1 and starts its handler"],
  "W3-list": ["G3", "worker 1 dies"],
  "W3-abandoned": ["G3", "worker 1 archives events 1 and deletes their blobs; no answer comes"],
  "W3-etag": ["G3", "worker 2 counts the start of event 1 and starts its handler"],
  W4: ["W4", "worker 1 starts the handler of event 1, which kills the process"],
  W5: ["G3", "worker 1 starts the handler of event 1"],
  "W5-lost": ["G3", "worker 1 starts the handler of event 1"],
  "W6-kept": ["G5", "worker 1 receives a wake-up and finds the lease taken"],
  look: ["G5", "worker 1 releases the lease"],
  archive: ["G6", "worker 1 deletes without archiving the blobs of events 1"],
};

describe("G1, G2, G3: all rules kept", () => {
  test.each(SMALL)("$name: every state is reached, none violates a guarantee, all lead to the end", ({ model }) => {
    const { complete, counterExample, states, transitions, settled } = explore(model);
    expect(counterExample).toBeUndefined();
    expect(complete).toBe(true);
    expect(settled).toBeGreaterThan(0);
    expect(transitions).toBeGreaterThan(states);
  });

  test("a search that is stopped says so", () => {
    expect(explore(SMALL[1]!.model, { maxStates: 500 }).complete).toBe(false);
    expect(explore(SMALL[1]!.model, { until: performance.now() }).complete).toBe(false);
  });
});

describe("one rule left out", () => {
  test.each(RULE_NAMES)("%s: a counter-example of its own, which the rule prevents", (rule) => {
    const found = explore(modelWithout(rule)).counterExample;
    expect([found?.guarantee, found?.trace.at(-1)]).toEqual(MISSED[rule]);
    const kept = explore(modelWith(rule));
    expect(kept.counterExample).toBeUndefined();
    expect(kept.complete).toBe(true);
  });

  test("the look after the release: its counter-example, step by step", () => {
    expect(explore(modelWithout("look")).counterExample?.trace).toEqual([
      "producer 1 sends its wake-up, hidden, and reads the order at sequence 0",
      "producer 1 sends its transaction: 1 event(s) after sequence 0",
      "producer 1 makes its wake-up visible",
      "producer 2 sends its wake-up, hidden, and reads the order at sequence 1",
      "worker 1 receives a wake-up and reads the lease blob: free, event 0 is finished",
      "worker 1 acquires the lease and reads the order at sequence 1 and the outbox: 1",
      "producer 2 sends its transaction: 1 event(s) after sequence 1",
      "producer 2 makes its wake-up visible",
      "worker 2 receives a wake-up and finds the lease taken",
      "worker 1 writes the progress: event 0 is finished",
      "worker 1 creates the blob of event 1",
      "worker 1 deletes the outbox entities 1",
      "worker 1 starts the handler of event 1",
      "worker 1 ends the handler of event 1 and writes the progress: event 1 is finished",
      "worker 1 archives events 1",
      "worker 1 releases the lease",
    ]);
  });
});

describe("the search itself", () => {
  const { model } = SMALL[1]!;
  const producers = model.commits.length;

  /** The same search, with the texts themselves instead of their hashes. */
  function search({ commits, workers, faults }: Model, symmetric: boolean): ReadonlySet<string> {
    const seen = new Set([encode(initialState(commits.length, workers, faults), symmetric)]);
    for (const text of seen) {
      for (const { next } of steps(model, decode(text, commits.length, workers))) seen.add(encode(next, symmetric));
    }
    return seen;
  }

  const seen = search(model, true);

  test("hashes take no two states for one, and a state comes back from its text", () => {
    expect(explore(model).states).toBe(seen.size);
    const visited = new Visited();
    for (const text of seen) {
      expect(visited.add(text)).not.toBe(-1);
      if (encode(decode(text, producers, 2), true) !== text) throw new Error("a state is not what it was");
    }
  });

  test("exchanging the workers for each other leaves out nothing but the exchanged", () => {
    const all = search(model, false);
    const exchanged = new Set([...all].map((text) => encode(decode(text, producers, 2), true)));
    expect([exchanged.size, exchanged.isSubsetOf(seen)]).toEqual([seen.size, true]);
    expect(all.size).toBeGreaterThan(seen.size);
  });

  test("a step leaves the state alone that it is taken from", () => {
    for (const text of [...seen].slice(0, 2_000)) {
      const state = decode(text, producers, 2);
      const before = JSON.stringify(state);
      steps(model, state);
      if (JSON.stringify(state) !== before) throw new Error("it was changed");
    }
  });
});

describe("what others call", () => {
  test("exploreModel: counts, one line a part, and nothing is proven in no time", async () => {
    const lines: string[] = [];
    const report = await exploreModel({ small: true, progress: (line) => lines.push(line) });
    expect(report).toMatchObject({ proven: true, violations: 0 });
    expect(lines).toHaveLength(RULE_NAMES.length + SMALL.length);
    expect(report.states).toBe(report.scenarios.reduce((sum, { states }) => sum + states, 0));
    const hurried = await exploreModel({ small: true, budgetMs: 0 });
    expect(hurried).toMatchObject({ proven: false, states: SMALL.length });
  });

  test("main.ts --without: the counter-example on the terminal, and an unknown rule is refused", async () => {
    const run = promisify(execFile);
    const { stdout } = await run(process.execPath, [MAIN, "--without", "W2-ghost"]);
    expect(stdout).toContain("  1. producer 1 sends its wake-up, hidden");
    expect(stdout).toContain("=> G3: event 1 starts again after event 1 was recorded as finished");
    await expect(run(process.execPath, [MAIN, "--without", "W99"])).rejects.toMatchObject({ code: 2 });
  });
});
