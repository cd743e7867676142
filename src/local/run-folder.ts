/**
 * Where a run writes down what its handlers did, and what it keeps between runs.
 *
 * Without `--keep` that is a temporary folder, removed after a verified run. With `--keep DIR`:
 *
 *     DIR/azurite/              the storage account
 *     DIR/runs/0001/            one folder for each run:
 *       orders.json             the orders it commits to, written before the first commit
 *       handled.ndjson          what the handlers wrote down
 *     DIR/lock                  the process that uses DIR
 *
 * A run accounts for its own events only. Events that an interrupted earlier run left behind may be handled in a later one; the audit knows
 * them because their order is in an earlier `orders.json` and their sequence is below all that this run committed to the order: sequences
 * never repeat, and nobody else commits to DIR meanwhile. Generated orders never meet that case, the number of the run is part of their ids.
 */
import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describeError } from "../core/errors.ts";
import { UsageError } from "./usage-error.ts";

const LOCK = "lock";
const ORDERS = "orders.json";

export class RunFolder {
  /** Number of this run in its folder, from 1. */
  readonly run: number;
  readonly path: string;
  /** Where Azurite persists; undefined: in memory. */
  readonly azurite: string | undefined;
  /** Orders that earlier runs committed to. */
  readonly earlierOrders: ReadonlySet<string>;
  readonly #lock: string | undefined;

  private constructor(
    run: number,
    path: string,
    kept?: { readonly azurite: string; readonly earlierOrders: ReadonlySet<string>; readonly lock: string },
  ) {
    this.run = run;
    this.path = path;
    this.azurite = kept?.azurite;
    this.earlierOrders = kept?.earlierOrders ?? new Set();
    this.#lock = kept?.lock;
  }

  /** @throws {UsageError} if `keep` can't be used, or is in use */
  static async open(keep: string | undefined): Promise<RunFolder> {
    if (keep === undefined) return new RunFolder(1, await mkdtemp(join(tmpdir(), "ordered-outbox-")));
    const runs = join(keep, "runs");
    const azurite = join(keep, "azurite");
    try {
      await mkdir(runs, { recursive: true });
      await mkdir(azurite, { recursive: true });
    } catch (cause) {
      throw new UsageError(`--keep ${keep}: ${describeError(cause)}`);
    }
    const lock = join(keep, LOCK);
    await takeLock(lock);
    const earlier = (await readdir(runs)).filter((name) => /^[0-9]{4,}$/.test(name));
    const run = Math.max(0, ...earlier.map(Number)) + 1;
    const path = join(runs, String(run).padStart(4, "0"));
    await mkdir(path);
    return new RunFolder(run, path, { azurite, earlierOrders: await readOrders(earlier.map((name) => join(runs, name, ORDERS))), lock });
  }

  get handledLog(): string {
    return join(this.path, "handled.ndjson");
  }

  /** Called before the first commit, so that a later run knows these orders whatever becomes of this one. */
  async writeOrders(orderIds: Iterable<string>): Promise<void> {
    await writeFile(join(this.path, ORDERS), JSON.stringify([...orderIds]));
  }

  /** @param evidence keep what the handlers wrote down even in a temporary folder */
  async close({ evidence }: { readonly evidence: boolean }): Promise<void> {
    if (this.#lock !== undefined) await rm(this.#lock, { force: true });
    else if (!evidence) await rm(this.path, { recursive: true, force: true });
  }
}

/** Two Azurites on the same files would destroy them. A lock whose process is gone is taken over. */
async function takeLock(lock: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await writeFile(lock, String(process.pid), { flag: "wx" });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST" || attempt === 3) throw new UsageError(`--keep: ${describeError(error)}`);
    }
    const owner = Number(await readFile(lock, "utf8").catch(() => ""));
    if (owner > 0 && isRunning(owner)) throw new UsageError(`--keep: ${lock} says that process ${owner} uses this folder`);
    await rm(lock, { force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

async function readOrders(files: readonly string[]): Promise<Set<string>> {
  const orders = new Set<string>();
  for (const file of files) {
    try {
      for (const orderId of JSON.parse(await readFile(file, "utf8")) as string[]) orders.add(orderId);
    } catch {
      // That run ended before the file was complete, hence before its first commit.
    }
  }
  return orders;
}
