/** The proof on a bad network: the fleet works through a proxy that loses, delays and breaks, and everything is audited. */
import { seededRandom } from "../../../src/local/seeded-random.ts";
import { Emulator } from "../../emulator/emulator.ts";
import type { PartReport, ProveOptions } from "../report.ts";
import { Fleet } from "../fleet/fleet.ts";
import { endlessLoad } from "../fleet/load.ts";
import { DisturbingProxy, DISTURBANCES, type Disturbance } from "./disturbing-proxy.ts";

/** Time under load. */
const FULL_MS = 600_000;
const SMALL_MS = 20_000;
const WORKERS = 2;
const PRODUCERS = 2;
const CONCURRENCY = 8;
const LEASE_MS = 30_000;
const HANDLER_MS = 20;
const PROGRESS_MS = 10_000;

export async function proveNetwork({
  progress = () => undefined,
  seed,
  small = false,
  budgetMs = small ? SMALL_MS : FULL_MS,
}: ProveOptions): Promise<PartReport> {
  await using azurite = await Emulator.start();
  const { connectionString } = azurite;
  await using proxy = new DisturbingProxy(seededRandom(seed));
  await using fleet = await Fleet.start({
    connectionString,
    disturbedConnectionString: await proxy.front(connectionString),
    load: await endlessLoad(seed),
    workers: WORKERS,
    producers: PRODUCERS,
    concurrency: CONCURRENCY,
    leaseMs: LEASE_MS,
    handlerMs: HANDLER_MS,
    progress,
  });
  using _shown = setInterval(() => {
    const { committed, handled } = fleet.counts;
    progress(`${committed} events committed, ${handled} handled; ${describeCounts(proxy.counts.requests, proxy.counts.disturbed)}`);
  }, PROGRESS_MS);
  const until = performance.now() + budgetMs;
  await fleet.run(() => performance.now() > until);
  const { requests, disturbed } = { requests: proxy.counts.requests, disturbed: { ...proxy.counts.disturbed } };
  proxy.disturbing = false;
  const { audit, archived, bundles, violations } = await fleet.end();
  const faults = Object.values(disturbed).reduce((sum, count) => sum + count, 0);
  const found = [
    ...violations,
    ...(audit.duplicates > faults ? [{ rule: "G3", text: `${audit.duplicates} duplicates after ${faults} disturbed requests` }] : []),
  ];
  return {
    figures: [
      ["minutes under load", Number((budgetMs / 60_000).toFixed(1))],
      ["requests", requests],
      ...DISTURBANCES.map((each) => [`requests disturbed: ${each}`, disturbed[each]] as const),
      ["orders", audit.orders],
      ["events", audit.events],
      ["events archived, each once", archived],
      ["blobs that hold several of them", bundles],
      ["lost", audit.missing],
      ["out of order", audit.outOfOrder],
      ["duplicates", audit.duplicates],
    ],
    violations: found.map((violation) => ({
      ...violation,
      replay: `npm run proof -- --only network --seed ${seed} --minutes ${budgetMs / 60_000}`,
    })),
    complete: budgetMs >= FULL_MS && DISTURBANCES.every((each) => disturbed[each] > 0),
  };
}

function describeCounts(requests: number, disturbed: Readonly<Record<Disturbance, number>>): string {
  return `${requests.toLocaleString("en")} requests: ${DISTURBANCES.map((each) => `${disturbed[each]} ${each}`).join(", ")}`;
}
