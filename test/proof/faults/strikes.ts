/** Which storage call meets which fault. Calls are numbered in the order in which they are issued, over all processes of a run. */
import { settle, type ManualClock } from "../../support/manual-clock.ts";

/** What can become of one call. */
export const FAULTS = [
  /** The connection is refused: nothing is applied. */
  "refused",
  /** Applied, then the connection closes without an answer. */
  "lost",
  /** Nothing is applied, and no answer comes until the caller's deadline. */
  "hang",
  /** Applied, and no answer comes until the caller's deadline. */
  "hang-applied",
  /** No answer comes until the caller's deadline; applied long after it, when a lease has run out too. */
  "late",
  /** Not applied: 503 ServerBusy. */
  "503",
  /** Not applied: 500 InternalError. */
  "500",
  /** Applied, and answered with 500 OperationTimedOut. */
  "500-applied",
  /** Not applied: 429 with Retry-After. */
  "429",
  /** The connection is reset while the request is sent: nothing is applied. */
  "reset",
] as const;

/** The process that makes the call dies: before the call reaches the service, or after it was applied. */
export const DEATHS = ["dies-before", "dies-after"] as const;

export type FaultName = (typeof FAULTS)[number] | (typeof DEATHS)[number];

export interface Strike {
  /** 1 for the first call of the run. */
  readonly call: number;
  readonly fault: FaultName;
  /** An outage: the same call of the same process meets the fault again whenever it is repeated, for {@link BURST_MS}. */
  readonly burst?: boolean;
}

/** Longer than a lease and than all that the SDKs repeat by themselves. */
export const BURST_MS = 35_000;
/** After the deadline of the call and the lease of its process. */
export const LATE_MS = 45_000;

export interface Hit extends Strike {
  readonly process: string;
  readonly what: string;
  readonly at: number;
}

/** One process as the rest of the world sees it. */
export class Process {
  readonly name: string;
  readonly died: Promise<void>;
  #dead = false;
  readonly #die: () => void;

  constructor(name: string) {
    this.name = name;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.died = promise;
    this.#die = resolve;
  }

  get dead(): boolean {
    return this.#dead;
  }

  /** From now on nothing that it sends arrives, and nothing comes back. */
  die(): void {
    this.#dead = true;
    this.#die();
  }
}

export class Strikes {
  /** What was called, in order: `p1 table Transaction …`. */
  readonly trail: string[] = [];
  readonly hits: Hit[] = [];
  readonly #planned: ReadonlyMap<number, Strike>;
  readonly #clock: ManualClock;
  readonly #bursts: { readonly until: number; readonly process: Process; readonly what: string; readonly strike: Strike }[] = [];

  constructor(clock: ManualClock, planned: readonly Strike[]) {
    this.#clock = clock;
    this.#planned = new Map(planned.map((strike) => [strike.call, strike]));
  }

  get calls(): number {
    return this.trail.length;
  }

  /** Counts a call and decides about it. */
  meet(process: Process, what: string): FaultName | undefined {
    this.trail.push(`${process.name} ${what}`);
    const now = this.#clock.monotonic();
    const planned = this.#planned.get(this.calls);
    if (planned?.burst === true) this.#bursts.push({ until: now + BURST_MS, process, what, strike: planned });
    const strike = planned ?? this.#bursts.find((burst) => burst.process === process && burst.what === what && now < burst.until)?.strike;
    if (strike === undefined) return undefined;
    this.hits.push({ ...strike, call: this.calls, process: process.name, what, at: now });
    return strike.fault;
  }
}

/** The command line that repeats a run. */
export function replayCommand(world: string, scenario: string, strikes: readonly Strike[]): string {
  const [first, second] = strikes;
  const options = first === undefined ? "" : ` --call ${first.call} --fault ${first.fault}${first.burst === true ? " --burst" : ""}`;
  const more = second === undefined ? "" : ` --second ${second.call}:${second.fault}`;
  return `npx node test/proof/faults/main.ts --world ${world} --scenario ${scenario}${options}${more}`;
}

export const never = (): Promise<never> => new Promise(() => undefined);

/** Lets time go by; between two turns of the clock everything that can go on without it does. */
export async function pass(clock: ManualClock, ms: number, idle: () => Promise<void> = settle): Promise<void> {
  let over = false;
  const end = clock.sleep(ms).then(() => void (over = true));
  for (;;) {
    await idle();
    if (over) break;
    await clock.advanceToNext();
  }
  await end;
}
