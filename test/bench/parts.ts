/** The parts of the bench, in the order in which they run. */
import type { Emulator } from "../emulator/emulator.ts";
import type { PartContext, PartResult } from "./result.ts";

export interface Part {
  readonly title: string;
  /** What it measures, in one line. */
  readonly about: string;
  /** It is given up after this time, in milliseconds. */
  readonly limitMs: number;
  /** Loads its code; a part runs in a process of its own. */
  readonly load: () => Promise<{ readonly run: (emulator: Emulator, context: PartContext) => Promise<PartResult> }>;
}

const MINUTE_MS = 60_000;

export const PARTS = {
  limit: {
    title: "Against the limit",
    about: "raw storage calls per second, and the product's share of them in three workloads",
    limitMs: 15 * MINUTE_MS,
    load: () => import("./parts/limit.ts"),
  },
  naive: {
    title: "Against the naive design",
    about: "one event at a time, bursts of 100 on an order, 16 wake-ups at once for one order",
    limitMs: 15 * MINUTE_MS,
    load: () => import("./parts/naive.ts"),
  },
  "hot-order": {
    title: "One order, 10 ms a call",
    about: "time an event beyond its handler, of a commit, and from a wake-up to its handler",
    limitMs: 15 * MINUTE_MS,
    load: () => import("./parts/hot-order.ts"),
  },
  scale: {
    title: "Flat at scale",
    about: "orders in the table, archived events of an order, pending orders, many keys with few events",
    limitMs: 15 * MINUTE_MS,
    load: () => import("./parts/scale.ts"),
  },
  dollars: {
    title: "Dollars",
    about: "per million events, idle per month, beside the naive design and Service Bus Standard",
    limitMs: 15 * MINUTE_MS,
    load: () => import("./parts/dollars.ts"),
  },
  host: {
    title: "A worker host",
    about: "events per second and CPU by concurrency, memory of an order in work, a CPU profile",
    limitMs: 15 * MINUTE_MS,
    load: () => import("./parts/host.ts"),
  },
} as const satisfies Readonly<Record<string, Part>>;

export type PartName = keyof typeof PARTS;
