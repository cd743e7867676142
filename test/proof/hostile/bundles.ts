/** Bundles of the archive: their names, the index in their metadata, their bodies; and bundles that nobody wrote, in the way of events that wait. */
import * as fc from "fast-check";
import type { ListedBlob, Metadata } from "../../../src/core/ports.ts";
import { createCleaner } from "../../../src/operations/cleanup.ts";
import { replay } from "../../../src/operations/replay.ts";
import { contextOf } from "../../worker/operator-support.ts";
import { key } from "../../worker/round-support.ts";
import { readArchive, type ArchiveBlob } from "../archive.ts";
import type { Kind } from "./kinds.ts";
import { Harm, HostileScene } from "./scene.ts";
import { damages, texts, type Damage } from "./texts.ts";

const EVENTS = 3;

interface BundleDamage {
  /** Its events were handled before; or they wait, and nobody has archived them. */
  readonly handled: boolean;
  /** The whole bundle stays where it is, beside the damaged one. */
  readonly beside: boolean;
  /** Of the name without the stream, of the index, of the body. */
  readonly name: Damage | undefined;
  readonly index: Damage | undefined;
  readonly body: Damage | Uint8Array | undefined;
  readonly metadata: Readonly<Record<string, string>> | undefined;
}

const NUMBERS = [
  "",
  "0",
  "1",
  "2",
  "3",
  "7",
  "-1",
  "01",
  "1e3",
  "999999",
  "9999999",
  "999999999999999",
  "9007199254740993",
  "zzzzzzzzzzz",
  "x",
];
const IDS = ["00000000000000000000000000", "01KDVDNA01NHAD521JD6ASAG2Y", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "idle"];

/** One field of one record is another; records are exchanged, doubled or left out. */
const indexDamages: fc.Arbitrary<Damage> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.tuple(fc.nat(EVENTS - 1), fc.nat(5), fc.oneof(fc.constantFrom(...NUMBERS, ...IDS), fc.nat(400).map(String))).map(
      ([record, field, value]) =>
        (index: string) =>
          index
            .split(";")
            .map((each, at) => (at === record ? each.split(",").with(field, value).join(",") : each))
            .join(";"),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.array(fc.nat(EVENTS - 1), { maxLength: 5 }).map((order) => (index: string) => {
      const records = index.split(";");
      return order.map((at) => records[at]).join(";");
    }),
  },
  { weight: 1, arbitrary: fc.integer({ min: 2, max: 400 }).map((times) => (index: string) => Array(times).fill(index).join(";")) },
  { weight: 2, arbitrary: damages },
);

const nameDamages: fc.Arbitrary<Damage> = fc.oneof(
  // First and last are exchanged, or of other events.
  fc.constant((name: string) => name.replace(/^(.*)-(.*)\.ndjson$/, "$2-$1.ndjson")),
  fc.tuple(fc.constantFrom(...IDS), fc.boolean()).map(
    ([id, isFirst]) =>
      (name: string) =>
        name.replace(isFirst ? /^[^-]*/ : /[^-]*(?=\.ndjson$)/, id),
  ),
  fc.constantFrom(".json", ".NDJSON", ".ndjson.ndjson", "/a.ndjson", "").map((end) => (name: string) => name.replace(/\.ndjson$/, end)),
  damages,
);

const bodyDamages: fc.Arbitrary<Damage> = fc.oneof(
  damages,
  // A line more, a line less, other line ends.
  fc.constantFrom("\n", "\n\n", "\r\n", "", " \n", "\0").map((end) => (body: string) => body.replace(/\n$/, end)),
  fc.constantFrom("\r\n", " ", "").map((end) => (body: string) => body.replace("\n", end)),
  fc.constant((body: string) => `${body.split("\n").toReversed().slice(1).join("\n")}\n`),
);

export const archiveBundles: Kind<BundleDamage> = {
  name: "archive bundles",
  share: 30_000,
  together: 6,
  inputs: fc.record({
    handled: fc.boolean(),
    beside: fc.boolean(),
    name: fc.option(nameDamages, { nil: undefined, freq: 2 }),
    index: fc.option(indexDamages, { nil: undefined, freq: 3 }),
    body: fc.option(fc.oneof({ weight: 4, arbitrary: bodyDamages }, { weight: 1, arbitrary: fc.uint8Array({ maxLength: 60 }) }), {
      nil: undefined,
      freq: 3,
    }),
    metadata: fc.option(
      fc.dictionary(fc.constantFrom("bundle", "index", "sequence", "previous", "outcome", "finishedat", "policy", "decision"), texts, {
        maxKeys: 3,
      }),
      { nil: undefined, freq: 1 },
    ),
  }),
  async tryOut(inputs) {
    const hostile = await HostileScene.make();
    const { scene } = hostile;
    const victims = inputs.map((_each, index) => `v-${index}`);
    for (const [index, input] of inputs.entries()) {
      await hostile.commit(victims[index]!, EVENTS);
      if (!input.handled)
        scene.onHandle = () => {
          throw new Error("carrier is down");
        };
      await hostile.round(victims[index]!);
      scene.onHandle = () => undefined;
    }
    const failed = new Set(victims.filter((_each, index) => !inputs[index]!.handled));
    const before = hostile.handled.filter(({ orderId }) => !failed.has(orderId));
    hostile.handled.splice(0, hostile.handled.length, ...before);
    hostile.reports.clear();
    hostile.noteFinished();
    inputs.forEach((input, index) => putDamaged(hostile, victims[index]!, input));
    await scene.clock.advance(20_000);
    for (const victim of victims) await hostile.commit(victim, 1);
    await hostile.meet(victims);
    await assertReadable(hostile, victims);
    hostile.assertHarmless(victims);
  },
};

function putDamaged({ scene: { storage } }: HostileScene, victim: string, input: BundleDamage): void {
  const prefix = `audit/${key(victim)}/`;
  const found = storage.blobEntries("archive").find(([name]) => name.startsWith(prefix));
  if (input.handled && found === undefined) throw new Error(`the events of ${victim} are in no bundle`);
  const whole: ArchiveBlob = found === undefined ? bundleOfPending(storage.blobEntries("events"), prefix) : blobOf(found);
  const { name, index, body, metadata } = input;
  const file = whole.name.slice(prefix.length);
  const bytes = body instanceof Uint8Array ? body : new TextEncoder().encode((body ?? same)(new TextDecoder().decode(whole.bytes)));
  if (found !== undefined && !input.beside) storage.deleteBlob("archive", whole.name);
  const target = `${prefix}${(name ?? same)(file)}`;
  if (found !== undefined && input.beside && target === whole.name) return;
  storage.putBlob("archive", target, bytes, { ...whole.metadata, index: (index ?? same)(whole.metadata["index"]!), ...metadata });
}

/** A whole one: as the holder before might have written it. */
function bundleOfPending(events: ReadonlyArray<readonly [string, Omit<ArchiveBlob, "name">]>, prefix: string): ArchiveBlob {
  const members = events
    .filter(([name]) => name.startsWith(prefix))
    .map(([name, { bytes }]) => ({ id: name.slice(prefix.length, -5), bytes }));
  const index = members.map(({ id, bytes }, at) => [id, at + 1, at, 1, "mjuhc2kg", bytes.length].join(",")).join(";");
  const bytes = Buffer.concat(members.flatMap((member) => [member.bytes, Buffer.from("\n")]));
  return {
    name: `${prefix}${members[0]!.id}-${members.at(-1)!.id}.ndjson`,
    bytes: new Uint8Array(bytes),
    metadata: { bundle: "1", index },
  };
}

function blobOf([name, { bytes, metadata }]: readonly [string, Omit<ArchiveBlob, "name">]): ArchiveBlob {
  return { name, bytes, metadata };
}

const same: Damage = (text) => text;

/**
 * Whoever looks through the ports gets each event once and in order, an event of a whole bundle with its bytes, and of a damaged one no bytes
 * but those of a line of it; one that is not as big as it must be is reported. The operations that read the archive end well, or say why not.
 */
async function assertReadable(hostile: HostileScene, victims: readonly string[]): Promise<void> {
  const { storage } = hostile.scene;
  const context = contextOf(hostile.scene);
  await hostile.reporting("", () => createCleaner({ storage }).clean({ dryRun: true }));
  for (const victim of victims) {
    const operator = { actor: "ann", reason: "carrier is back" };
    const reports = [...(hostile.reports.get(victim) ?? []), ...(hostile.reports.get("") ?? [])].join("\n");
    await hostile.reporting(victim, () => replay(context, { orderId: victim, subscription: "audit" }, operator, { dryRun: true }));
    const prefix = `audit/${key(victim)}/`;
    const blobs = storage.blobEntries("archive").map(blobOf);
    const own = blobs.filter(({ name }) => name.startsWith(prefix));
    const listed = await Array.fromAsync(storage.blobs.list("archive", prefix));
    listed.forEach(({ name }, at) => {
      if (at > 0 && name <= listed[at - 1]!.name) throw new Harm(`the archive lists ${name} after ${listed[at - 1]!.name}`);
    });
    for (const blob of own) await assertWhole(hostile, blob, listed);
    for (const { name, bundle } of listed.filter((each) => each.bundle !== undefined)) {
      const blob = own.find((each) => each.name === bundle!.name)!;
      const bytes = (await storage.blobs.read("archive", name))?.bytes;
      if (bundle!.torn !== isTorn(blob)) throw new Harm(`${bundle!.name} is ${bundle!.torn ? "" : "not "}called torn`);
      if (bundle!.torn && !reports.includes(bundle!.name)) throw new Harm(`${bundle!.name} is torn, and nobody says so`);
      if (bytes === undefined && readArchive([blob]).problems.length === 0) throw new Harm(`${name} is whole, and can't be read`);
      const isLine = (each: ArchiveBlob): boolean => `\n${latin1(each.bytes)}`.includes(`\n${latin1(bytes!)}\n`);
      if (bytes !== undefined && !own.some((each) => !isTorn(each) && isLine(each)))
        throw new Harm(`${name} reads as what is no line of any bundle that can be read`);
    }
  }
}

function isTorn({ bytes, metadata: { index = "" } }: ArchiveBlob): boolean {
  const lengths = index.split(";").map((record) => Number(record.split(",")[5]) + 1);
  return bytes.length !== lengths.reduce((sum, length) => sum + length, 0);
}

/** A bundle in which everything is as it must be. */
async function assertWhole({ scene: { storage } }: HostileScene, blob: ArchiveBlob, listed: readonly ListedBlob[]): Promise<void> {
  const { events, bundles, problems } = readArchive([blob]);
  if (bundles === 0 || problems.length > 0 || !isOurs(blob.metadata)) return;
  for (const name of events.keys())
    if (!listed.some((each) => each.name === name)) throw new Harm(`${name} is in a bundle, and not listed`);
  for (const [name, [{ text }]] of events) {
    const read = await storage.blobs.read("archive", name);
    const elsewhere = listed.find((each) => each.name === name)?.bundle?.name !== blob.name;
    if (!elsewhere && new TextDecoder().decode(read?.bytes) !== text) throw new Harm(`${name} reads as other bytes than it has`);
  }
}

/** The numbers are no bigger than those of any event of ours: what nobody could have written may be refused. */
function isOurs({ index = "" }: Metadata): boolean {
  return index.split(";").every((record) => {
    const [, sequence, previous, attempts, time] = record.split(",");
    return (
      [sequence, previous, attempts].every((each) => /^(0|[1-9]\d{0,8})$/.test(each!)) &&
      sequence !== "0" &&
      /^[1-9a-z]\w{0,8}$/.test(time!)
    );
  });
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("latin1");
}
