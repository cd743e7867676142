/** Hostile command lines as real processes against a real account: each ends by itself, with a status that the help names. */
import * as fc from "fast-check";
import { connectStorage } from "../../../src/storage/connect.ts";
import { createOutbox } from "../../../src/producer/outbox.ts";
import { createWorker } from "../../../src/worker/worker.ts";
import { defineSubscription } from "../../../src/core/workflow.ts";
import { encodeOrderId, parseOrderId } from "../../../src/core/order-id.ts";
import { runCli } from "../../cli/run-cli.ts";
import { startAzurite } from "../../support/azurite.ts";
import { workflow } from "../../worker/round-support.ts";
import type { Violation } from "../report.ts";
import { lines } from "./command-lines.ts";
import { IDLE } from "./scene.ts";

const LANES = 2;
const STATUSES: readonly number[] = [0, 1, 2, 3, 4];
/** These may touch the good order when they name it, or all orders; `work` does not end by itself. */
const LEFT_OUT = new Set(["work"]);

export async function proveProcesses(options: {
  readonly seed: number;
  readonly count: number;
  readonly until: number;
  readonly progress?: (line: string) => void;
}): Promise<{ tried: number; found: readonly Violation[] }> {
  const { seed, count, until, progress } = options;
  const azurite = await startAzurite();
  const found: Violation[] = [];
  let tried = 0;
  try {
    const { connectionString } = azurite;
    const setUp = await runCli(["setup"], connectionString);
    if (setUp.status !== 0) throw new Error(`setup failed: ${setUp.stderr}`);
    const storage = connectStorage({ connectionString });
    const subscription = defineSubscription(workflow, { name: "audit", handle: () => undefined });
    await createOutbox({ workflow, storage }).commit(IDLE, () => ({ state: { committed: 1 }, events: [{ type: "step", data: { n: 1 } }] }));
    await createWorker({ workflow, subscriptions: [subscription], storage }).handle(IDLE);
    const stateOf = async (): Promise<string> => {
      const order = encodeOrderId(parseOrderId(IDLE));
      const blobs = await Promise.all(
        (["events", "archive", "dead"] as const).map(async (container) =>
          (await Array.fromAsync(storage.blobs.list(container, ""))).map(({ name, etag }) => `${name} ${etag}`),
        ),
      );
      const [row, lease] = await Promise.all([storage.orders.readOrder(order), storage.leases.read(order)]);
      return JSON.stringify([blobs, row, lease?.metadata]);
    };
    const before = await stateOf();
    // A process can't be given a NUL, nor half a character.
    const given = lines.filter((line) => !LEFT_OUT.has(line[0] ?? "") && line.every((word) => !word.includes("\0") && word.isWellFormed()));
    const sample = fc.sample(given, { seed, numRuns: count });
    const lane = async (): Promise<void> => {
      for (let line = sample.pop(); line !== undefined && performance.now() < until; line = sample.pop()) {
        const { status, stderr, stdout } = await runCli(line, connectionString);
        tried += 1;
        if (tried % 25 === 0) progress?.(`command lines as processes: ${tried}`);
        const hasStack = /^\s+at .*:\d+:\d+\)?$/m.test(stderr) || stderr.includes("not foreseen");
        if (STATUSES.includes(status) && !hasStack) continue;
        const text = `ordered-outbox ${line.map((word) => JSON.stringify(word)).join(" ")}\n=> status ${status}\n${stderr.slice(0, 2_000)}${stdout.slice(0, 200)}`;
        found.push({ rule: "hostile", text, replay: `npm run proof -- --only hostile --seed ${seed} --path processes` });
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    if ((await stateOf()) !== before) {
      const text = `${tried} command lines have changed an order that is done with`;
      found.push({ rule: "hostile", text, replay: `npm run proof -- --only hostile --seed ${seed} --path processes` });
    }
  } finally {
    await azurite.stop();
  }
  return { tried, found };
}
