/** The model's steps are the code's own calls: the same rounds, in the model and with the real producer and worker on memory storage. */
import { describe, expect, test } from "vitest";
import type { Storage } from "../../src/core/ports.ts";
import { createOutbox } from "../../src/producer/outbox.ts";
import { settle } from "../support/manual-clock.ts";
import { key, Scene, workflow } from "../worker/round-support.ts";
import type { Model, Step } from "./model/model.ts";
import { allBut } from "./model/rules.ts";
import { eventsOf, initialState, upTo } from "./model/state.ts";
import { steps } from "./model/steps.ts";

const FAULTS = { crashes: 1, expiries: 0, unanswered: 0, queue: 0, stops: 0 };

function modelOf(events: number): Model {
  return { kept: allBut(), commits: [[events]], workers: 1, faults: FAULTS, poison: 0, maxCrashes: 1 };
}

/** The calls of each step, by how its label goes on after the name of who takes it. */
const CALLS: readonly (readonly [label: RegExp, calls: readonly string[]])[] = [
  [/^producer 1 sends its wake-up, hidden, and reads the order/, ["wakeUps.send", "orders.readOrder"]],
  [/^producer 1 sends its transaction/, ["orders.commit"]],
  [/^producer 1 makes its wake-up visible/, ["wakeUps.hide"]],
  [/receives a wake-up and reads the lease blob/, ["leases.read"]],
  [/acquires the lease and reads the order/, ["leases.acquire", "orders.readOutbox"]],
  [/lists the event blobs/, ["blobs.list"]],
  [/creates the blob of event/, ["blobs.create"]],
  [/^worker 1 writes the progress/, ["leases.writeMetadata"]],
  [/deletes the outbox entities/, ["orders.deleteOutbox"]],
  [/counts the start of event \d and starts its handler/, ["blobs.writeMetadata", "handler"]],
  [/^worker 1 starts the handler/, ["handler"]],
  [/ends the handler of event \d and writes the progress/, ["leases.writeMetadata"]],
  // Written together, however many they are.
  [/archives events [1-3, ]+$/, ["blobs.create", "blobs.delete"]],
  [/releases the lease/, ["leases.release"]],
  [/looks at the outbox once more/, ["orders.readOutbox"]],
  [/ dies$| becomes visible$|runs out$/, []],
];

/** What a dead holder had handled may be in a bundle of its: the next one looks there first, and then archives one by one what is not. */
function callsForLeftOver(events: number): readonly string[] {
  return ["blobs.list", ...eventsOf(events).map(() => "blobs.create"), "blobs.delete"];
}

/** What the model does if everybody goes on with what is next, and dies where it is told to. */
function callsOfModel(events: number, diesAfter?: RegExp): string[] {
  const model = modelOf(events);
  const calls: string[] = [];
  let state = initialState(1, 1, FAULTS);
  let dies = false;
  let leftOver = 0;
  for (;;) {
    const all = steps(model, state);
    const step: Step | undefined = dies
      ? all.find(({ label }) => label === "worker 1 dies")
      : // What is left of a dead holder comes to its end before anybody asks.
        (all.find(({ label }) => label.endsWith("runs out")) ?? all.find(({ kind }) => kind === "own"));
    if (step === undefined) return calls;
    const known = CALLS.filter(([label]) => label.test(step.label));
    if (known.length !== 1) throw new Error(`${known.length} entries for the step: ${step.label}`);
    if (step.label.includes("lists the event blobs")) leftOver = state.shared.events & upTo(state.shared.done);
    calls.push(...(step.label.includes("archives events") && leftOver !== 0 ? callsForLeftOver(leftOver) : known[0]![1]));
    dies = diesAfter?.test(step.label) === true;
    state = step.next;
  }
}

/** Storage that writes down its calls: those that the model has, for it knows nothing of pauses, reads of event texts and new lease blobs. */
function recording(scene: Scene): Storage {
  const known = new Set(CALLS.flatMap(([, calls]) => calls));
  const wrap = <Port extends object>(name: string, port: Port): Port =>
    new Proxy(port, {
      get(target, method, receiver) {
        const call = `${name}.${String(method)}`;
        if (known.has(call)) scene.log.push(call);
        return Reflect.get(target, method, receiver) as unknown;
      },
    });
  const { orders, wakeUps, leases, blobs } = scene.storage;
  return {
    orders: wrap("orders", orders),
    wakeUps: wrap("wakeUps", wakeUps),
    leases: wrap("leases", leases),
    blobs: wrap("blobs", blobs),
  };
}

async function commit(scene: Scene, storage: Storage, events = 1): Promise<void> {
  await createOutbox({ workflow, storage, clock: scene.clock }).commit("o-1", () => ({
    state: { committed: events },
    events: Array.from({ length: events }, (_each, index) => ({ type: "step" as const, data: { n: index + 1 } })),
  }));
}

function logged(scene: Scene): string[] {
  return scene.log.map((entry) => entry.replace(/^audit E\d$/, "handler"));
}

test("§4, §5: a commit and its round", async () => {
  const scene = new Scene();
  const storage = recording(scene);
  await commit(scene, storage);
  await scene.until(scene.worker(undefined, { storage }).handle("o-1"));
  expect(logged(scene)).toEqual(callsOfModel(1));
});

test("G6: what a round handles is collected, and archived together", async () => {
  const scene = new Scene();
  const storage = recording(scene);
  await commit(scene, storage, 2);
  await scene.until(scene.worker(undefined, { storage }).handle("o-1"));
  expect(logged(scene)).toEqual(callsOfModel(2));
  expect(scene.storage.blobEntries("archive")).toHaveLength(1);
});

test("W3, W4: a holder dies in the handler, the next one takes over", async () => {
  const scene = new Scene();
  const storage = recording(scene);
  await commit(scene, storage);
  scene.onHandle = () => new Promise(() => undefined);
  scene
    .worker(undefined, { storage })
    .handle("o-1")
    .catch(() => undefined);
  await settle();
  scene.onHandle = () => undefined;
  scene.storage.breakLease(key("o-1"));
  await scene.until(scene.worker(undefined, { storage }).handle("o-1"));
  expect(logged(scene)).toEqual(callsOfModel(1, /starts the handler of event 1$/));
});

describe("W11: a holder dies with what it has handled, the next one archives it", () => {
  const MODEL = callsOfModel(2, /ends the handler of event 2 /);

  /** The calls of the second holder. */
  function ofSecond(calls: readonly string[]): readonly string[] {
    return calls.slice(calls.lastIndexOf("leases.read"));
  }

  test.each([
    ["before its bundle is written: by itself, as in the model", false, ofSecond(MODEL)],
    ["after it: not once more", true, ofSecond(MODEL).filter((call) => call !== "blobs.create")],
  ])("%s", async (_, isWritten, calls) => {
    const scene = new Scene();
    const storage = recording(scene);
    await commit(scene, storage, 2);
    const never = new Promise<never>(() => undefined);
    scene.storage.onCall = ({ port, method, args }) => {
      if (port === "blobs" && method === "create" && args[0] === "archive") return isWritten ? { after: () => never } : never;
      return undefined;
    };
    scene
      .worker(undefined, { storage })
      .handle("o-1")
      .catch(() => undefined);
    await settle();
    scene.storage.onCall = undefined;
    scene.storage.breakLease(key("o-1"));
    await scene.until(scene.worker(undefined, { storage }).handle("o-1"));
    expect(ofSecond(logged(scene))).toEqual(calls);
    expect(calls).toContain("blobs.list");
    expect(scene.ids("archive")).toHaveLength(2);
    expect(scene.ids("events")).toEqual([]);
  });
});
