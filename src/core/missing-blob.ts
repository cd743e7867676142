/** Where the blob of a missing event was (W3): what has to be undeleted. */
import type { EventId } from "./event-id.ts";
import { eventBlobName, streamPrefix } from "./names.ts";
import type { OrderKey } from "./order-id.ts";

/** @param id undefined if nothing that is left tells it */
export function missingBlobText(subscription: string, order: OrderKey, id: EventId | undefined): string {
  if (id !== undefined) return `its blob was events/${eventBlobName(subscription, order, id)}`;
  return `its blob was one below events/${streamPrefix(subscription, order)}, and nothing that is left tells its id`;
}
