/** The short form of the fault enumeration: on the ports, a part of all faults and calls. The whole of it is `npm run proof`. */
import { expect, test } from "vitest";
import { readArchive, type ArchiveBlob } from "../archive.ts";
import { auditScene } from "./audit.ts";
import { proveFaults } from "./prove.ts";
import { runOne } from "./run-one.ts";
import { Scene } from "./scenario.ts";
import { memoryWorlds } from "./world.ts";

test("one fault at some calls, once and as an outage, and some deaths: G1, G2, G3 and G6 hold", { timeout: 180_000 }, async () => {
  const report = await proveFaults({ small: true });
  expect(report.violations).toEqual([]);
  expect(report.figures[0]).toEqual(["runs", expect.any(Number)]);
  expect(report.figures[0]![1]).toBeGreaterThan(100);
});

test("a run is the same each time", async () => {
  const [first, second] = [
    await runOne(memoryWorlds(), "full", [{ call: 47, fault: "lost" }]),
    await runOne(memoryWorlds(), "full", [{ call: 47, fault: "lost" }]),
  ];
  const withoutLeaseIds = (trail: readonly string[]): readonly string[] => trail.map((call) => call.replace(/ [0-9a-f-]{36}$/, ""));
  expect(withoutLeaseIds(first.trail)).toEqual(withoutLeaseIds(second.trail));
  expect(first.hits).toEqual(second.hits);
});

/** The first one of the archive. */
async function bundleOf({ world }: Scene): Promise<ArchiveBlob> {
  return (await world.archive()).find(({ name }) => name.endsWith(".ndjson"))!;
}

async function spoilBundle(scene: Scene, spoil: (bundle: ArchiveBlob) => Partial<ArchiveBlob>): Promise<void> {
  const bundle = await bundleOf(scene);
  const { name, bytes, metadata } = { ...bundle, ...spoil(bundle) };
  await scene.world.raw.blobs.delete("archive", [name]);
  await scene.world.raw.blobs.create("archive", name, bytes, metadata);
}

function replaced(bytes: Uint8Array, from: string, to: string): Uint8Array {
  return new TextEncoder().encode(new TextDecoder().decode(bytes).replace(from, to));
}

/** A sound run whose books or storage are then spoiled. */
async function auditSpoiled(spoil: (scene: Scene) => Promise<void> | void): Promise<readonly string[]> {
  const scene = new Scene(await memoryWorlds().make([]), "full");
  await scene.play();
  await scene.stop();
  await spoil(scene);
  return (await auditScene(scene)).violations;
}

test.each<[name: string, spoil: (scene: Scene) => Promise<void> | void, found: RegExp]>([
  ["nothing", () => undefined, /^$/],
  ["a call is missing", ({ books }) => void books.calls.splice(0, 1), /was started before its predecessor|is lost/],
  [
    "the calls came the other way round",
    ({ books }) => void books.calls.splice(0, books.calls.length, ...books.calls.toReversed()),
    /was started before its predecessor/,
  ],
  [
    "a call is repeated",
    ({ books }) => void books.calls.push({ ...books.calls.at(-1)!, startedAt: 1e9, endedAt: 1e9 }),
    /no fault explains it/,
  ],
  ["a call failed", ({ books }) => void (books.calls[0]!.outcome = "failed"), /failed and nothing explains it/],
  [
    "an answered commit is gone",
    ({ books, commits }) => {
      books.answered.add("d1");
      (commits as unknown[]).push({ name: "d1", producer: "p1", orderId: "A", events: [9], keyed: true });
    },
    /commit d1 was answered and is lost/,
  ],
  [
    "an archived event is gone",
    async ({ world }) => {
      const [blob] = await Array.fromAsync(world.raw.blobs.list("archive", "audit/"));
      await world.raw.blobs.delete("archive", [blob!.bundle?.name ?? blob!.name]);
    },
    /^archive of audit/m,
  ],
  ["a bundle has lost its end", (scene) => spoilBundle(scene, ({ bytes }) => ({ bytes: bytes.slice(0, -1) })), /no line ends at/],
  [
    "a bundle has other bytes",
    (scene) => spoilBundle(scene, ({ bytes }) => ({ bytes: bytes.map((byte) => (byte === 0x3a ? 0x20 : byte)) })),
    /^archive\/.*ndjson: .*JSON/m,
  ],
  [
    "an event of a bundle says that it was handled with other data",
    (scene) => spoilBundle(scene, ({ bytes }) => ({ bytes: replaced(bytes, '"n":1}', '"n":7}') })),
    /was handled with other bytes than are archived/,
  ],
  [
    "the index of a bundle leaves an event out",
    (scene) => spoilBundle(scene, ({ metadata }) => ({ metadata: { ...metadata, index: metadata["index"]!.split(";")[0]! } })),
    /the index tells of/,
  ],
  [
    "an event of a bundle has other bytes in a blob of its own",
    async (scene) => {
      const bundle = await bundleOf(scene);
      const [{ name, text, sequence }] = readArchive([bundle]).events.values().next().value!;
      const bytes = new TextEncoder().encode(text.replace('"n":', '"n": '));
      await scene.world.raw.blobs.create("archive", name, bytes, { sequence: String(sequence), outcome: "handled" });
    },
    /has other bytes in/,
  ],
  [
    "an event blob is left",
    async ({ world }) => void (await world.raw.blobs.create("events", "audit/A/x.json", new Uint8Array(), {})),
    /was left behind/,
  ],
])("the audit finds it when %s", async (_, spoil, found) => {
  expect((await auditSpoiled(spoil)).join("\n")).toMatch(found);
});
