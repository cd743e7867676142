/** Child process: makes the commits it is told to, each under an idempotency key, and repeats those that fail. It may be killed at any moment. */
import { setTimeout as delay } from "node:timers/promises";
import { describeError, isOutboxError } from "../../../src/core/errors.ts";
import { rawJson } from "../../../src/core/json.ts";
import { connectToParent } from "../../../src/local/parent-channel.ts";
import { createOutbox, type Outbox } from "../../../src/producer/outbox.ts";
import { recordEvents } from "../../../src/shipment/transitions.ts";
import { shipmentWorkflow, type ShipmentWorkflow } from "../../../src/shipment/workflow.ts";
import { connectStorage } from "../../../src/storage/connect.ts";
import type { CommitThis, FromProducer, ToProducer } from "./messages.ts";

const RETRY_DELAY_MS = 500;

let outbox: Outbox<ShipmentWorkflow>;

const send = connectToParent<ToProducer, FromProducer>((message) => {
  if (message.kind === "stop") process.exit(0);
  else if (message.kind === "commit") void commit(message);
  else {
    outbox = createOutbox({ workflow: shipmentWorkflow, storage: connectStorage({ connectionString: message.connectionString }) });
    void send({ kind: "started" });
  }
});

async function commit({ position, commit: { orderId, events } }: CommitThis): Promise<void> {
  const inputs = events.map(({ type, time, dataText }) => ({ type, time, data: rawJson(dataText) }));
  for (;;) {
    try {
      const result = await outbox.commit(orderId, (state) => recordEvents(orderId, state, inputs), {
        idempotencyKey: `commit-${position}`,
      });
      return await send({ kind: "committed", position, events: result.events });
    } catch (error) {
      if (!isOutboxError(error, "outcome-unknown", "timeout", "unavailable"))
        await send({ kind: "failed", text: `commit to order ${orderId}: ${describeError(error)}` });
      await delay(RETRY_DELAY_MS);
    }
  }
}
