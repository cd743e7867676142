/** Where a run takes place: an account that many processes share, and time that somebody turns. */
import { randomBytes } from "node:crypto";
import { encodeOrderId, parseOrderId } from "../../../src/core/order-id.ts";
import type { Storage } from "../../../src/core/ports.ts";
import { connectStorage } from "../../../src/storage/connect.ts";
import { seededRandom } from "../../../src/local/seeded-random.ts";
import { startAzurite, type Azurite } from "../../support/azurite.ts";
import { ManualClock, settle } from "../../support/manual-clock.ts";
import { createMemoryStorage } from "../../support/memory-storage.ts";
import { listArchiveBlobs, type ArchiveBlob } from "../archive.ts";
import { HttpGate } from "./http-gate.ts";
import { lapseTime } from "./lapsed-time.ts";
import { gatePorts } from "./port-gate.ts";
import { pass, Strikes, type Process, type Strike } from "./strikes.ts";

export type WorldName = "azurite" | "memory";

export interface World {
  readonly clock: ManualClock;
  readonly random: () => number;
  readonly strikes: Strikes;
  /** What a process of the run connects to. */
  connect(process: Process): Storage;
  /** What the audit reads: not counted, never struck. */
  readonly raw: Storage;
  /** The blobs of the archive, past the ports. */
  archive(): Promise<readonly ArchiveBlob[]>;
  pass(ms: number): Promise<void>;
}

export interface Worlds {
  /** A fresh account, at rest, with these strikes ahead. */
  make(strikes: readonly Strike[]): Promise<World>;
  close(): Promise<void>;
}

const SEED = 7;
const DAY_MS = 24 * 60 * 60 * 1000;

export function memoryWorlds(): Worlds {
  return {
    make: async (planned) => {
      const clock = new ManualClock();
      const strikes = new Strikes(clock, planned);
      const raw = createMemoryStorage(clock);
      return {
        clock,
        random: seededRandom(SEED),
        strikes,
        connect: (process) => gatePorts(raw, process, strikes, clock),
        raw,
        archive: async () => raw.blobEntries("archive").map(([name, blob]) => ({ name, ...blob })),
        pass: (ms) => pass(clock, ms, settle),
      };
    },
    close: async () => undefined,
  };
}

/** After so many runs Azurite starts anew: it never forgets anything. */
const RUNS_PER_AZURITE = 60;

/** Azurite in this process, whose time is taken over for good. */
export function azuriteWorlds(): Worlds {
  let azurite: Azurite | undefined;
  let runs = 0;
  let day = 0;
  return {
    make: async (planned) => {
      // Time never turns back for Azurite.
      const clock = new ManualClock(Date.UTC(2027, 0, 1) + day++ * DAY_MS);
      lapseTime(clock, seededRandom(SEED));
      if (runs++ % RUNS_PER_AZURITE === 0) {
        await azurite?.stop();
        azurite = await startAzurite();
      }
      const { connectionString } = azurite!;
      const prefix = `t${randomBytes(8).toString("hex")}`;
      const raw = connectStorage({ connectionString, prefix });
      await raw.createResources();
      const strikes = new Strikes(clock, planned);
      const gate = new HttpGate(clock, strikes);
      return {
        clock,
        random: seededRandom(SEED),
        strikes,
        connect: (process) => connectStorage({ connectionString, prefix, httpClient: gate.client(process) }),
        raw,
        archive: () => listArchiveBlobs(connectionString, prefix),
        pass: (ms) => pass(clock, ms, () => gate.idle()),
      };
    },
    close: async () => {
      await azurite?.stop();
    },
  };
}

export function key(orderId: string): ReturnType<typeof encodeOrderId> {
  return encodeOrderId(parseOrderId(orderId));
}
