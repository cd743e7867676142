/** The same faults one floor higher: where the ports of core are called. */
import { OutboxError } from "../../../src/core/errors.ts";
import type { CallOptions, Storage } from "../../../src/core/ports.ts";
import { withBundles } from "../../../src/storage/bundled-archive.ts";
import type { ManualClock } from "../../support/manual-clock.ts";
import type { MemoryStorage } from "../../support/memory-storage.ts";
import { LATE_MS, never, type FaultName, type Process, type Strikes } from "./strikes.ts";

const DEADLINE_MS = 10_000;

/** One process' view of the storage: what a bundle of the archive takes are calls of their own. */
export function gatePorts(storage: MemoryStorage, process: Process, strikes: Strikes, clock: ManualClock): Storage {
  const call = async <Result>(what: string, signal: AbortSignal | undefined, real: () => Promise<Result>): Promise<Result> => {
    if (process.dead) return never();
    const fault = strikes.meet(process, what);
    if (fault === undefined) return await real();
    if (APPLIED.has(fault)) await real().catch(() => undefined);
    if (fault === "dies-before" || fault === "dies-after") {
      process.die();
      return never();
    }
    if (fault === "late")
      void clock
        .sleep(LATE_MS)
        .then(real)
        .catch(() => undefined);
    if (HANGS.has(fault)) {
      await clock.sleep(DEADLINE_MS, signal).catch((cause: unknown) => {
        throw new OutboxError("aborted", what, { cause });
      });
      throw new OutboxError("timeout", `${what}: no answer`);
    }
    const status = STATUS[fault];
    throw new OutboxError("unavailable", `${what}: ${fault}`, { details: status === undefined ? {} : { status } });
  };

  const wrap = <Port extends object>(name: string, port: Port): Port =>
    new Proxy(port, {
      get(target, method, receiver) {
        const real = Reflect.get(target, method, receiver) as (...args: readonly unknown[]) => unknown;
        if (method === "check") return real;
        const whatOf = (args: readonly unknown[]): string =>
          [name, String(method), ...args.filter((arg) => typeof arg === "string").slice(0, 2)].join(" ");
        if (method === "list") {
          return async function* (...args: unknown[]) {
            await call(whatOf(args), signalOf(args), () => Promise.resolve());
            yield* real.apply(target, args) as AsyncIterable<unknown>;
          };
        }
        return (...args: unknown[]) =>
          // Late or not, what is done to the service does not end with its caller.
          call(
            whatOf(args),
            signalOf(args),
            () =>
              real.apply(
                target,
                args.filter((arg) => !isCallOptions(arg)),
              ) as Promise<unknown>,
          );
      },
    });
  return {
    orders: wrap("orders", storage.orders),
    wakeUps: wrap("wakeUps", storage.wakeUps),
    leases: wrap("leases", storage.leases),
    blobs: withBundles(wrap("blobs", storage.ownBlobs)),
  };
}

const APPLIED: ReadonlySet<FaultName> = new Set(["lost", "hang-applied", "500-applied", "dies-after"]);
const HANGS: ReadonlySet<FaultName> = new Set(["hang", "hang-applied", "late"]);
const STATUS: Partial<Record<FaultName, number>> = { "503": 503, "500": 500, "500-applied": 500, "429": 429 };

function signalOf(args: readonly unknown[]): AbortSignal | undefined {
  return args.find(isCallOptions)?.signal;
}

function isCallOptions(arg: unknown): arg is CallOptions {
  return typeof arg === "object" && arg !== null && "signal" in arg && (arg.signal === undefined || arg.signal instanceof AbortSignal);
}
