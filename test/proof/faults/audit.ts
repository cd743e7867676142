/**
 * Did the guarantees hold? Judged by the books of the scene and by what lies in storage, event by event; what the pipeline says about itself
 * comes last and only adds to it.
 */
import { verifyAll } from "../../../src/operations/verify.ts";
import { readArchive, type Archive } from "../archive.ts";
import type { HandlerCall } from "./books.ts";
import type { Scene } from "./scenario.ts";
import { DIES, FAILS_ONCE } from "./scenario.ts";
import { key } from "./world.ts";

export interface Audited {
  readonly violations: readonly string[];
  /** Repetitions of an event whose handler had resolved, each explained by a fault. */
  readonly duplicates: number;
  readonly handlerCalls: number;
}

interface StoredEvent {
  readonly id: string;
  readonly sequence: number;
  readonly n: number;
  readonly text: string;
}

export async function auditScene(scene: Scene): Promise<Audited> {
  const { books, commits } = scene;
  const violations = [...books.surprises];
  const report = (text: string): void => void violations.push(text);
  let duplicates = 0;
  let accounted = 0;
  const archive = readArchive(await scene.world.archive());
  for (const orderId of new Set(commits.map((commit) => commit.orderId))) {
    const expected = await auditOrder(scene, orderId, report);
    for (const subscription of scene.subscriptions) {
      const calls = books.calls.filter((call) => call.orderId === orderId && call.subscription === subscription);
      accounted += calls.length;
      duplicates += auditStream(scene, `${subscription} of order ${orderId}`, expected, calls, report);
      auditArchive(archive, subscription, orderId, expected, calls, report);
    }
  }
  if (accounted !== books.calls.length) report(`${books.calls.length - accounted} handler calls are of no order or subscription of ours`);
  await auditView(scene, archive, report);
  await auditLeftovers(scene, report);
  return { violations, duplicates, handlerCalls: books.calls.length };
}

/** G1: the state and the events of a commit are there together or not at all. Returns the numbers of the events in commit order. */
async function auditOrder({ world, books, commits }: Scene, orderId: string, report: (text: string) => void): Promise<readonly number[]> {
  const entity = await world.raw.orders.readOrder(key(orderId));
  const { applied = [] } = JSON.parse(entity?.state ?? "{}") as { readonly applied?: readonly string[] };
  const own = new Map(commits.filter((commit) => commit.orderId === orderId).map((commit) => [commit.name, commit]));
  if (new Set(applied).size !== applied.length) report(`order ${orderId}: a commit happened twice: ${applied.join(" ")}`);
  for (const name of own.keys()) {
    const happened = applied.includes(name);
    if (books.answered.has(name) && !happened) report(`order ${orderId}: commit ${name} was answered and is lost`);
    if (!books.answered.has(name) && !books.unknown.has(name)) report(`order ${orderId}: commit ${name} has no fate`);
  }
  const numbers = applied.flatMap((name) => own.get(name)?.events ?? []);
  if ((entity?.sequence ?? 0) !== numbers.length)
    report(`order ${orderId}: half a commit: sequence ${entity?.sequence} with ${numbers.length} events`);
  return numbers;
}

/** G2 and G3. Returns the number of explained duplicates. */
function auditStream(
  { world }: Scene,
  stream: string,
  expected: readonly number[],
  calls: readonly HandlerCall[],
  report: (text: string) => void,
): number {
  const done = new Set<number>();
  let latest = -1;
  let duplicates = 0;
  for (const [index, call] of calls.entries()) {
    const position = call.sequence - 1;
    const { n } = call;
    if (expected[position] !== n) report(`${stream}: E${n} came with sequence ${call.sequence}: it was not committed like this`);
    const running = calls.slice(0, index).filter((other) => (other.endedAt ?? Number.POSITIVE_INFINITY) > call.startedAt);
    if (running.length > 0) report(`${stream}: E${n} was started while E${running[0]!.n} was running`);
    if (position < latest) report(`${stream}: E${n} was started again after E${expected[latest]}`);
    if (position > latest + 1) report(`${stream}: E${n} was started before its predecessor`);
    if (position === latest + 1 && latest >= 0 && !done.has(latest))
      report(`${stream}: E${n} was started before E${expected[latest]} was finished`);
    const before = calls.slice(0, index).findLast((other) => other.id === call.id);
    if (before?.outcome === "done") {
      duplicates += 1;
      if (!world.strikes.hits.some((hit) => hit.process === before.worker && hit.at <= call.startedAt))
        report(`${stream}: E${n} was repeated and no fault explains it`);
    }
    latest = Math.max(latest, position);
    if (call.outcome === "done") done.add(position);
    if (call.outcome === "failed" && !mayFail(world, call)) report(`${stream}: E${n} failed and nothing explains it`);
    if (call.outcome === undefined) report(`${stream}: E${n} still runs`);
  }
  if (duplicates > world.strikes.hits.length) report(`${stream}: ${duplicates} duplicates of ${world.strikes.hits.length} faults`);
  expected.forEach((n, position) => {
    if (!done.has(position)) report(`${stream}: E${n} is lost: it was never handled`);
  });
  return duplicates;
}

/** By design of the scenario, or by the abort signal after a fault. */
function mayFail({ strikes }: Scene["world"], { n, subscription, worker, startedAt, endedAt }: HandlerCall): boolean {
  if (subscription === "billing" && (n === DIES || n === FAILS_ONCE)) return true;
  return strikes.hits.some(({ process, at }) => process === worker && at <= (endedAt ?? startedAt));
}

/** G6: each event is there, with the bytes that its handler got, and nothing else is. */
function auditArchive(
  { events }: Archive,
  subscription: string,
  orderId: string,
  expected: readonly number[],
  calls: readonly HandlerCall[],
  report: (text: string) => void,
): void {
  const archived: StoredEvent[] = [];
  for (const [name, copies] of [...events].filter(([each]) => each.startsWith(`${subscription}/${key(orderId)}/`)).sort(byName)) {
    for (const { blob, outcome } of copies)
      if (outcome !== "handled") report(`archive/${blob}: outcome ${outcome} for ${name}, which was handled`);
    const [{ id, sequence, text }] = copies;
    const { data } = JSON.parse(text) as { readonly data: { readonly n: number } };
    archived.push({ id, sequence, n: data.n, text });
  }
  const found = archived.map(({ n, sequence }) => `E${n}@${sequence}`).join(" ");
  const wanted = expected.map((n, position) => `E${n}@${position + 1}`).join(" ");
  if (found !== wanted) report(`archive of ${subscription}, order ${orderId}: ${found || "empty"} instead of ${wanted || "nothing"}`);
  for (const call of calls) {
    const stored = archived.find(({ id }) => id === call.id);
    if (stored?.text !== call.text)
      report(`${subscription} of order ${orderId}: E${call.n} was handled with other bytes than are archived`);
  }
}

/** Whoever reads through the ports sees just these events, each once, in the order of names. */
async function auditView({ world }: Scene, { events, problems }: Archive, report: (text: string) => void): Promise<void> {
  problems.forEach(report);
  const listed = await Array.fromAsync(world.raw.blobs.list("archive", ""));
  const names = [...events].sort(byName).map(([name]) => name);
  const seen = listed.map(({ name }) => name);
  if (seen.join(" ") !== names.join(" ")) report(`the archive is listed as ${seen.join(" ")}, and has ${names.join(" ")}`);
  for (const { name, metadata } of listed) {
    const stored = events.get(name)?.[0];
    const read = await world.raw.blobs.read("archive", name);
    if (new TextDecoder().decode(read?.bytes) !== stored?.text) report(`archive/${name} reads as other bytes than it has`);
    for (const { outcome, sequence } of [metadata, read?.metadata ?? {}])
      if (outcome !== stored?.outcome || sequence !== String(stored?.sequence)) report(`archive/${name} reads as ${outcome} ${sequence}`);
  }
}

function byName([one]: readonly [string, unknown], [other]: readonly [string, unknown]): number {
  return one < other ? -1 : 1;
}

async function auditLeftovers({ world }: Scene, report: (text: string) => void): Promise<void> {
  for (const container of ["events", "dead", "payloads"] as const) {
    for await (const { name } of world.raw.blobs.list(container, "")) report(`${container}/${name} was left behind`);
  }
  const { findings } = await verifyAll({ storage: world.raw, clock: world.clock });
  for (const { kind, severity, text } of findings) report(`verify: ${severity} ${kind}: ${text}`);
}
