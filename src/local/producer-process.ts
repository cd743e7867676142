/** Child process: commits the orders assigned to it, several at a time, each order's commits one after the other. */
import { setTimeout as delay } from "node:timers/promises";
import type { EventReference } from "../core/commit-tokens.ts";
import { describeError, isOutboxError } from "../core/errors.ts";
import { rawJson } from "../core/json.ts";
import { createOutbox, type Outbox } from "../producer/outbox.ts";
import { recordEvents } from "../shipment/transitions.ts";
import { shipmentWorkflow, type ShipmentWorkflow } from "../shipment/workflow.ts";
import { connectStorage } from "../storage/connect.ts";
import { childLogger } from "./child-logger.ts";
import { CALL_REPORT_INTERVAL_MS, type AssignedCommit, type FromProducer, type StartProducer, type ToProducer } from "./messages.ts";
import { connectToParent } from "./parent-channel.ts";

const COMMITS_IN_FLIGHT = 8;
const MAX_ATTEMPTS = 8;
const RETRY_DELAY_MS = 500;

const send = connectToParent<ToProducer, FromProducer>((message) => void run(message));

async function run({ connectionString, commits }: StartProducer): Promise<void> {
  const storage = connectStorage({ connectionString });
  const outbox = createOutbox({ workflow: shipmentWorkflow, storage, logger: childLogger });
  const reportCalls = (): Promise<void> => send({ kind: "calls", calls: storage.calls.snapshot() });
  const reports = setInterval(() => void reportCalls(), CALL_REPORT_INTERVAL_MS);
  try {
    await commitAll(outbox, commits);
    await reportCalls();
    await send({ kind: "finished" });
  } catch (error) {
    await reportCalls();
    await send({ kind: "failed", text: describeError(error) });
  }
  clearInterval(reports);
  process.exit(0);
}

/**
 * Each lane takes the next commit of the plan and waits for the one before it on the same order. That one is in another lane and was taken
 * earlier, so there is always a lane that goes on.
 */
async function commitAll(outbox: Outbox<ShipmentWorkflow>, commits: readonly AssignedCommit[]): Promise<void> {
  const lastOfOrder = new Map<string, Promise<void>>();
  const remaining = commits.values();
  const lane = async (): Promise<void> => {
    for (const commit of remaining) {
      const before = lastOfOrder.get(commit.orderId) ?? Promise.resolve();
      const done = before.then(() => commitAndReport(outbox, commit));
      lastOfOrder.set(commit.orderId, done);
      await done;
    }
  };
  await Promise.all(Array.from({ length: COMMITS_IN_FLIGHT }, lane));
}

async function commitAndReport(outbox: Outbox<ShipmentWorkflow>, commit: AssignedCommit): Promise<void> {
  let events: readonly EventReference[];
  try {
    events = await commitUntilAnswered(outbox, commit);
  } catch (cause) {
    const origin = commit.origin === undefined ? "" : ` (${commit.origin})`;
    throw new Error(`commit to order ${commit.orderId}${origin}: ${describeError(cause)}`, { cause });
  }
  await send({ kind: "committed", position: commit.position, events });
}

/** Repeats a commit that got no answer. The commit token makes that safe (C3): the repetition does nothing if the first one happened after all. */
async function commitUntilAnswered(
  outbox: Outbox<ShipmentWorkflow>,
  { orderId, events }: AssignedCommit,
): Promise<readonly EventReference[]> {
  const inputs = events.map(({ type, time, dataText }) => ({ type, time, data: rawJson(dataText) }));
  let commitToken: string | undefined;
  for (let attempt = 1; ; attempt++) {
    try {
      const result = await outbox.commit(
        orderId,
        (state) => recordEvents(orderId, state, inputs),
        commitToken === undefined ? {} : { commitToken },
      );
      return result.events;
    } catch (error) {
      if (!isOutboxError(error, "outcome-unknown", "timeout", "unavailable") || attempt === MAX_ATTEMPTS) throw error;
      commitToken = error.details.commitToken ?? commitToken;
      await delay(RETRY_DELAY_MS * attempt);
    }
  }
}
