/** Orders as a shop has them: from a file, or made up in the same form. */
import { readInput } from "../../src/local/input.ts";
import type { PlannedEvent } from "../../src/local/plan.ts";
import { pick, seededRandom, type Random } from "../../src/local/seeded-random.ts";

/** The events of each order, in commit order. */
export type ShopOrders = ReadonlyMap<string, readonly PlannedEvent[]>;

/** How many events an order has; four on average. */
const LENGTHS = [1, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 5, 5, 6, 8] as const;
const FIRST_AT = Date.parse("2026-01-05T08:00:00Z");
const STEP_MS = 3_600_000;

/**
 * By hand with orders from elsewhere: `ORDERED_OUTBOX_TEST_ORDERS=orders.ndjson`, one event a line.
 *
 * @param count of made-up orders
 */
export async function shopOrders(count: number): Promise<ShopOrders> {
  const file = process.env["ORDERED_OUTBOX_TEST_ORDERS"];
  if (file === undefined) return madeUp(count, seededRandom(1));
  const byOrder = Map.groupBy(await readInput(file), ({ orderId }) => orderId);
  return new Map([...byOrder].map(([orderId, commits]) => [orderId, commits.flatMap(({ events }) => events)]));
}

function madeUp(count: number, random: Random): ShopOrders {
  const customer = (): string => Math.floor(random() * 2 ** 48).toString(16).padStart(12, "0"); // prettier-ignore
  return new Map(
    Array.from({ length: count }, (_, number) => {
      const life = [
        ["order.purchased", { customerId: customer(), estimatedDelivery: "2026-02-01" }],
        ["order.approved", {}],
        ["shipment.instructed", { carrier: pick(random, ["DHL", "GLS", "UPS"]), parcels: 1 + Math.floor(random() * 3) }],
        ["shipment.picked-up", { depot: pick(random, ["Köln", "Łódź", "Liège"]) }],
        ["order.invoiced", { cents: Math.floor(random() * 100_000) }],
        ["shipment.in-transit", { hub: pick(random, ["Kassel", "Zürich"]) }],
        ["shipment.out-for-delivery", {}],
        ["shipment.delivered", { late: random() < 0.1 }],
      ] as const;
      const events = life.slice(0, pick(random, LENGTHS)).map(([type, data], step): PlannedEvent => {
        const time = new Date(FIRST_AT + number * 60_000 + step * STEP_MS).toISOString();
        return { type, time, dataText: JSON.stringify(data) };
      });
      return [`shop-${customer()}-${number}`, events] as const;
    }),
  );
}
