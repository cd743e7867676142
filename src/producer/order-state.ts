import { printable } from "../core/errors.ts";
import { parseStoredJson } from "../core/json.ts";
import type { OrderId } from "../core/order-id.ts";
import type { OrderEntity } from "../core/ports.ts";
import { validate, type OutputOf } from "../core/schema.ts";
import type { AnyWorkflow } from "../core/workflow.ts";
import type { Order } from "./order-change.ts";

/** The order as the workflow's schema sees it. Throws `invalid-state` if the stored state does not fit the schema of today. */
export async function readOrderState<W extends AnyWorkflow>(
  workflow: W,
  orderId: OrderId,
  entity: OrderEntity | undefined,
): Promise<Order<OutputOf<W["state"]>>> {
  const what = `the stored state of order ${printable(orderId)}`;
  const state =
    entity?.state === undefined
      ? undefined
      : ((await validate(workflow.state, parseStoredJson(entity.state, what), what, "invalid-state")) as OutputOf<W["state"]>);
  return { orderId, state, sequence: entity?.sequence ?? 0, lastEventId: entity?.lastEventId };
}
