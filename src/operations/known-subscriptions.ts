/**
 * Which subscriptions storage knows. None is declared there: a name is known by what it has left behind, so one that was deployed a minute
 * ago and has got no event yet is not.
 */
import { isOutboxError, OutboxError, printable } from "../core/errors.ts";
import { UNROUTED, type Container } from "../core/names.ts";
import type { OrderKey } from "../core/order-id.ts";
import { decodeProgress } from "../core/progress.ts";
import { parseEventBlobName } from "./blob-name.ts";
import type { OperationsContext } from "./context.ts";
import { inLanes } from "./lanes.ts";
import { listPauses } from "./list-pauses.ts";

const CONTAINERS = ["events", "dead", "archive"] as const satisfies readonly Container[];
/** Names looked at in each container to tell what there is, once the wanted name is not found. */
const MAX_NAMES = 5_000;
/** Orders whose progress is looked at then. */
const MAX_ORDERS = 1_000;
/** Pages of the table that are read to find them: the service may look through a page's worth of other rows and return none. */
const MAX_PAGES = 200;
const LANES = 16;

/**
 * Is the name that of a subscription with a pending, dead or archived event, a pause, or progress in some order? Costs up to 3 listings of one
 * name and a query if it is; if not, up to 5,000 names of each container and the progress of up to 1,000 orders are looked at besides.
 *
 * @throws `not-found` with the names that are known; what storage throws
 */
export async function assertKnownSubscription(context: OperationsContext, subscription: string): Promise<void> {
  for (const container of CONTAINERS) if (await hasAny(context, container, `${subscription}/`)) return;
  const known = new Set((await listPauses(context)).map((pause) => pause.subscription));
  const complete = known.has(subscription) || (await addFromProgress(context, known));
  if (known.has(subscription)) return;
  for (const container of CONTAINERS) await addFromNames(context, container, known);
  const names = known.size === 0 ? "none is known" : `known are ${[...known].sort().join(", ")}`;
  const where = complete ? "progress" : "progress of the orders looked at";
  throw new OutboxError("not-found", `no event, dead letter or ${where} names a subscription ${printable(subscription)}: ${names}`);
}

async function hasAny({ storage }: OperationsContext, container: Container, prefix: string): Promise<boolean> {
  for await (const _first of storage.blobs.list(container, prefix, { pageSize: 1 })) return true;
  return false;
}

/** False if there are more orders than were looked at. */
async function addFromProgress(context: OperationsContext, known: Set<string>): Promise<boolean> {
  const { orders, leases } = context.storage;
  const found: OrderKey[] = [];
  let next: string | undefined;
  let pages = 0;
  // A page may be empty although there are more (W10).
  do {
    const page = await orders.scanOrders(next, 1);
    found.push(...page.orders);
    ({ next } = page);
  } while (next !== undefined && found.length < MAX_ORDERS && ++pages < MAX_PAGES);
  await inLanes(found.slice(0, MAX_ORDERS), LANES, async (order: OrderKey) => {
    const lease = await leases.read(order);
    if (lease === undefined) return;
    try {
      for (const name of Object.keys(decodeProgress(lease.metadata).streams)) known.add(printable(name));
    } catch (error) {
      // What is wrong with it is for `verify` to say.
      if (!isOutboxError(error, "corrupt")) throw error;
    }
  });
  return next === undefined && found.length <= MAX_ORDERS;
}

async function addFromNames({ storage }: OperationsContext, container: Container, known: Set<string>): Promise<void> {
  let seen = 0;
  for await (const { name } of storage.blobs.list(container, "")) {
    const parsed = parseEventBlobName(name);
    if (parsed !== undefined && parsed.subscription !== UNROUTED) known.add(parsed.subscription);
    if (++seen === MAX_NAMES) return;
  }
}
