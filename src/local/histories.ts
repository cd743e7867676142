/** Shipment histories that look real and depend on the seed alone. */
import type { ShipmentEventData, ShipmentEventType } from "../shipment/workflow.ts";
import type { Plan, PlannedCommit, PlannedEvent } from "./plan.ts";
import { pick, randomInteger, seededRandom, type Random } from "./seeded-random.ts";

const FIRST_INSTRUCTION = Date.parse("2026-01-05T08:00:00Z");
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const MAX_DELIVERY_ATTEMPTS = 3;

const CARRIERS = ["DHL", "UPS", "GLS", "DPD", "Hermes"] as const;
const HUBS = ["Köln", "Leipzig", "Hamburg", "Kassel", "Łódź", "Liège", "Zürich"] as const;
const PEOPLE = ["A. Novák", "M. Silva", "J. O'Neill", "S. Yılmaz", "K. Sørensen"] as const;

export interface HistoryOptions {
  readonly orders: number;
  readonly seed: number;
  /** Number of the run in its `--keep` folder. Ids of later runs carry it, so that they never clash with earlier ones. */
  readonly run: number;
}

/**
 * The commits of `orders` shipments, merged by time as they would reach a producer. Most commits carry one event; now and then two scans
 * arrive together and are committed together.
 */
export function generateHistories({ orders, seed, run }: HistoryOptions): Plan {
  const random = seededRandom(seed);
  const prefix = run === 1 ? `s${seed}` : `s${seed}-r${run}`;
  const commits: { readonly at: number; readonly commit: PlannedCommit }[] = [];
  for (let number = 1; number <= orders; number++) {
    const orderId = `${prefix}-${String(number).padStart(5, "0")}`;
    const instructedAt = FIRST_INSTRUCTION + number * MINUTE_MS;
    for (const events of groupScans(history(random, instructedAt), random)) {
      commits.push({ at: Date.parse(events[0].time), commit: { orderId, events } });
    }
  }
  // Array.sort is stable: commits of one order stay in their order.
  return commits.sort((left, right) => left.at - right.at).map(({ commit }) => commit);
}

/** One shipment from instruction to its end. Times only grow. */
function history(random: Random, instructedAt: number): PlannedEvent[] {
  const events: PlannedEvent[] = [];
  let at = instructedAt;
  const happen = <Type extends ShipmentEventType>(type: Type, data: ShipmentEventData[Type]): void => {
    events.push({ type, time: new Date(at).toISOString(), dataText: JSON.stringify(data) });
    at += randomInteger(random, 20, 14 * 60) * MINUTE_MS;
  };

  happen("shipment.instructed", {
    carrier: pick(random, CARRIERS),
    parcels: randomInteger(random, 1, 4),
    weightGrams: randomInteger(random, 80, 31_500),
  });
  if (random() < 0.06) {
    happen("shipment.canceled", { reason: pick(random, ["customer changed their mind", "out of stock", "payment refused"]) });
    return events;
  }
  happen("shipment.picked-up", { depot: pick(random, HUBS) });
  for (let hub = randomInteger(random, 1, 3); hub > 0; hub--) happen("shipment.in-transit", { hub: pick(random, HUBS) });
  for (let attempt = 1; attempt <= MAX_DELIVERY_ATTEMPTS; attempt++) {
    happen("shipment.out-for-delivery", { attempt });
    if (random() < 0.8) {
      happen("shipment.delivered", { signedBy: pick(random, PEOPLE), late: at - instructedAt > 72 * HOUR_MS });
      return events;
    }
    const reason = pick(random, ["nobody at home", "address not found", "refused"]);
    happen("shipment.delivery-failed", { attempt, reason });
    if (reason === "refused") break;
  }
  happen("shipment.returned", { reason: "not delivered" });
  return events;
}

function groupScans(events: readonly PlannedEvent[], random: Random): [PlannedEvent, ...PlannedEvent[]][] {
  const groups: [PlannedEvent, ...PlannedEvent[]][] = [];
  for (const event of events) {
    const group = groups.at(-1);
    if (group !== undefined && group.length === 1 && random() < 0.1) group.push(event);
    else groups.push([event]);
  }
  return groups;
}
