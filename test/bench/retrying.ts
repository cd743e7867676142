/** A worker whose handler fails once for every event but the first of its order. */
import { createDefaultHttpClient } from "@azure/core-rest-pipeline";
import { createOutbox } from "../../src/producer/outbox.ts";
import { defineSubscription } from "../../src/core/workflow.ts";
import type { Worker } from "../../src/worker/round-result.ts";
import { createWorker } from "../../src/worker/worker.ts";
import { connect, freshPrefix } from "./account.ts";
import type { Contender } from "./contender.ts";
import { steps, workflow } from "./workflow.ts";

/** `short`: tried again within the round. `long`: parked, and handled after another wake-up. */
export type RetryKind = "short" | "long";

const LONG_DELAY_MS = 1_000;
/** Queue messages are hidden in whole seconds. */
const UNTIL_VISIBLE_MS = 2_100;

export async function failingOnce(
  connectionString: string,
  kind: RetryKind,
): Promise<{
  readonly contender: Pick<Contender, "commit" | "wakeUps" | "calls">;
  readonly worker: Worker;
  readonly waitMs: number | undefined;
}> {
  const prefix = freshPrefix();
  const storage = connect(connectionString, prefix, createDefaultHttpClient());
  await storage.createResources();
  const outbox = createOutbox({ workflow, storage });
  const failed = new Set<number>();
  const subscription = defineSubscription(workflow, {
    name: "audit",
    retry: kind === "short" ? { shortStarts: 2, shortDelayMs: 0 } : { shortStarts: 1, longDelayMs: LONG_DELAY_MS },
    handle: ({ sequence }) => {
      if (sequence === 1 || failed.has(sequence)) return;
      failed.add(sequence);
      throw new Error("not yet");
    },
  });
  return {
    contender: {
      commit: async (orderId, events) => void (await outbox.commit(orderId, steps(1, events))),
      wakeUps: storage.wakeUps,
      calls: () => storage.calls.snapshot(),
    },
    worker: createWorker({ workflow, subscriptions: [subscription], storage }),
    waitMs: kind === "short" ? undefined : UNTIL_VISIBLE_MS,
  };
}
