/** Where a long scan of the table goes on, kept in a control row so that any process can. Losing one costs a scan from the beginning. */
import { CONTROL_PARTITION } from "../core/controls.ts";
import { isOutboxError } from "../core/errors.ts";
import type { CallOptions, OrdersTable } from "../core/ports.ts";

/** Names of the rows. */
export type CursorName = "reconcile" | "cleanup";

/**
 * One bounded scan from where the last one stopped; from the beginning if the row is gone or something else wrote it.
 *
 * @param scan throws `invalid-option` for a place that no scan gave
 */
export async function scanOn<Scan>(
  orders: OrdersTable,
  name: CursorName,
  scan: (from: string | undefined) => Promise<Scan>,
  options: CallOptions,
): Promise<Scan> {
  const from = (await orders.readEntity(CONTROL_PARTITION, name, options))?.properties["from"];
  if (typeof from !== "string") return scan(undefined);
  try {
    return await scan(from);
  } catch (error) {
    if (!isOutboxError(error, "invalid-option")) throw error;
    return scan(undefined);
  }
}

/** @param next undefined at the end of the table: the next scan begins anew */
export async function keepPlace(orders: OrdersTable, name: CursorName, next: string | undefined, options: CallOptions): Promise<void> {
  if (next === undefined) await orders.deleteEntity(CONTROL_PARTITION, name, options);
  else await orders.putEntity(CONTROL_PARTITION, name, { from: next }, options);
}
