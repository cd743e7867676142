/** What operators have paused (F5). */
import { CONTROL_PARTITION, decodePause, PAUSE_ROWS, type Pause } from "../core/controls.ts";
import type { OperationsContext } from "./context.ts";

/** All pauses there are, in order of their keys. */
export async function listPauses({ storage, signal }: OperationsContext): Promise<readonly Pause[]> {
  const rows = await storage.orders.listEntities(CONTROL_PARTITION, PAUSE_ROWS, signal === undefined ? {} : { signal });
  return rows.flatMap(({ rowKey, properties }) => decodePause(rowKey, properties) ?? []);
}
