/** Why does an order not move? Facts in, a verdict out: one sentence, and the one command that moves it. */
import { isPaused, type Pause } from "./controls.ts";
import { counted } from "./counted.ts";
import { oneLine, printable } from "./errors.ts";
import type { EventId } from "./event-id.ts";
import { encodeOrderId, type OrderId } from "./order-id.ts";
import { missingBlobText } from "./missing-blob.ts";
import { isDue, isHandlerMissing, type PendingState } from "./pending-event.ts";
import type { LeaseBlob } from "./ports.ts";
import { streamProgress, type Progress } from "./progress.ts";
import {
  contradictionAlarm,
  contradictionIn,
  firstUnaccounted,
  missingSequence,
  newestSequence,
  seenSequence,
  splitGhosts,
} from "./stream.ts";

/** A sentence stays one that can be read; `orders show` has more of the error. */
const MAX_ERROR_LENGTH = 200;

export type VerdictCode =
  | "order-unknown"
  | "order-behind-progress"
  | "contradiction"
  | "gap"
  | "blocked-dead-letter"
  | "subscription-gone"
  | "handler-not-deployed"
  | "paused"
  | "waiting-retry"
  | "lease-held"
  | "wake-up-missing"
  | "nothing-to-do";

/** The most urgent first: what only a human can move comes before what moves by itself. */
const URGENCY: readonly VerdictCode[] = [
  "order-unknown",
  "order-behind-progress",
  "contradiction",
  "gap",
  "blocked-dead-letter",
  "subscription-gone",
  "handler-not-deployed",
  "paused",
  "wake-up-missing",
  "lease-held",
  "waiting-retry",
  "nothing-to-do",
];

/** Verdicts that wait for a human or a deployment, whatever the sweeps do. */
const STUCK: ReadonlySet<VerdictCode> = new Set<VerdictCode>([
  "order-behind-progress",
  "contradiction",
  "gap",
  "blocked-dead-letter",
  "subscription-gone",
  "handler-not-deployed",
  "paused",
]);

export interface Verdict {
  readonly code: VerdictCode;
  /** Undefined: the verdict is about the order as a whole. */
  readonly subscription?: string;
  /** For people, safe to print. */
  readonly sentence: string;
  /** Arguments of the one command of `ordered-outbox` that moves it, if a command does. */
  readonly command?: readonly string[];
  /** While the lease is held: since when, ISO 8601, by the worker's clock; undefined as long as its holder has left no mark. */
  readonly heldSince?: string;
  /** Of `lease-held`: host and process id of the holder, told with {@link heldSince}. */
  readonly heldBy?: string;
  /** Of `lease-held`: the event of the stream that runs, or is the next to run. `attempt` counts its starts, 1 for the first. */
  readonly running?: { readonly id: EventId; readonly sequence: number; readonly type?: string; readonly attempt: number };
  /** True if the stream is paused as well: what the command starts waits for the resume too. */
  readonly paused?: true;
}

export interface PendingFact {
  readonly id: EventId;
  /** Of the blob without our metadata nothing else is known. */
  readonly sequence: number | undefined;
  readonly state: PendingState | undefined;
}

export interface StreamFacts {
  readonly subscription: string;
  /** Oldest first; ghosts may be among them. */
  readonly pending: readonly PendingFact[];
  /** Event type of the first one that is no ghost, if it can be read. */
  readonly headType?: string;
}

export interface OrderFacts {
  readonly orderId: OrderId;
  readonly nowMs: number;
  /** Sequence of the order entity; undefined if there is none. */
  readonly sequence: number | undefined;
  readonly outbox: readonly { readonly sequence: number }[];
  /** Undefined: no worker has ever seen the order. */
  readonly lease: LeaseBlob["state"] | undefined;
  /** True if an operator has broken the lease, and it is running out. */
  readonly leaseBreaking?: boolean;
  /** Since when a lease that is taken is held; undefined if its holder has not left its mark yet. */
  readonly heldSinceMs?: number | undefined;
  /** Host and process id of the holder, if its mark tells them. */
  readonly heldBy?: string | undefined;
  readonly progress: Progress;
  /** False if a worker moved the order while the facts were gathered: then nothing is said to be missing. */
  readonly settled: boolean;
  readonly streams: readonly StreamFacts[];
  readonly pauses: readonly Pause[];
  /** Ids of the order's events by sequence, as far as they are known, to tell the blob of a missing one; default none. */
  readonly eventIds?: ReadonlyMap<number, EventId>;
  /** Dead letters that their streams have skipped; default none. */
  readonly skipped?: number;
  /** What the application's module declares, if it is at hand. */
  readonly deployed?: { readonly subscriptions: ReadonlySet<string>; readonly eventTypes: ReadonlySet<string> };
}

export interface Explanation {
  /** The most urgent verdict. */
  readonly verdict: Verdict;
  /** The rest, most urgent first: each stream of an order stands or moves on its own. */
  readonly others: readonly Verdict[];
  /** True if any verdict waits for a human or a deployment. */
  readonly stuck: boolean;
}

export function explainOrder(facts: OrderFacts): Explanation {
  const listed = new Set(facts.streams.map(({ subscription }) => subscription));
  const empty = Object.keys(facts.progress.streams).filter((name) => !listed.has(name));
  const streams = [...facts.streams, ...empty.map((subscription): StreamFacts => ({ subscription, pending: [] }))];
  const verdicts = [...aboutOrder(facts), ...streams.flatMap((stream) => aboutStream(facts, stream) ?? [])];
  if (verdicts.length === 0) {
    const { skipped = 0 } = facts;
    const notice = skipped === 0 ? "" : ` Skipped as dead letters and still listed: ${skipped}, see \`dead list\`.`;
    const sentence = `Order ${printable(facts.orderId)} is done: every committed event is finished.${notice}`;
    verdicts.push({ code: "nothing-to-do", sentence });
  }
  const [verdict, ...others] = verdicts.sort((a, b) => URGENCY.indexOf(a.code) - URGENCY.indexOf(b.code)) as [Verdict, ...Verdict[]];
  return { verdict, others, stuck: [verdict, ...others].some(({ code, paused }) => STUCK.has(code) || paused === true) };
}

/** What is said of an order that nothing in storage speaks of. */
export function unknownOrderText(orderId: OrderId): string {
  // Tables show ids in a form that no command reads back.
  const isCopied = /\\u[0-9a-f]{4}/i.test(orderId) ? "; if it was copied from a table, --json has it as it is, without \\u escapes" : "";
  return `there is no order ${printable(orderId)}, and no trace of one: check the id, the account and --prefix${isCopied}`;
}

function aboutOrder(facts: OrderFacts): Verdict[] {
  const { orderId, outbox, progress, streams, settled } = facts;
  const name = printable(orderId);
  const top = newestSequence(facts.sequence, outbox);
  const seen = seenSequence(progress);
  if (facts.sequence === undefined && outbox.length === 0 && streams.length === 0 && seen === 0) {
    const said = unknownOrderText(orderId);
    return [{ code: "order-unknown", sentence: `${said.charAt(0).toUpperCase()}${said.slice(1)}.` }];
  }
  if (settled && top < seen) {
    const sentence = `Order ${name} is at event ${top}, but workers have seen ${seen}: its entity was restored or removed, so nothing of it runs.`;
    return [{ code: "order-behind-progress", sentence, command: ["verify", "--", orderId] }];
  }
  const missing = settled ? firstUnaccounted(seen, top, sequencesOf(outbox), sequencesOf(statesOf(streams))) : undefined;
  if (missing !== undefined) {
    const sentence = `Event ${missing} of order ${name} is missing: it is neither in the outbox nor pending, and nothing after it runs.`;
    return [{ code: "gap", sentence, command: ["verify", "--", orderId] }];
  }
  if (outbox.length === 0) return [];
  const what = `${counted(outbox.length, "committed event")} of order ${name} from ${outbox[0]!.sequence} on`;
  return [due(facts, what)];
}

function aboutStream(facts: OrderFacts, stream: StreamFacts): Verdict | undefined {
  const { orderId, nowMs, pauses, deployed, settled } = facts;
  const { subscription, headType } = stream;
  const progress = streamProgress(facts.progress, subscription);
  const { pending } = splitGhosts(stream.pending, progress);
  const say = (code: VerdictCode, sentence: string, ...command: readonly string[]): Verdict => ({
    code,
    subscription,
    sentence,
    ...(command.length === 0 ? {} : { command }),
  });
  const select = ["--subscription", subscription, "--", orderId];

  // Of an order that is behind its progress as a whole, that is what is said.
  const top = Math.max(newestSequence(facts.sequence, facts.outbox), seenSequence(facts.progress));
  const wrong = settled ? contradictionIn(pending, progress, top) : undefined;
  if (wrong !== undefined) {
    const text = contradictionAlarm(subscription, wrong, progress);
    return say("contradiction", `${text.charAt(0).toUpperCase()}${text.slice(1)}.`, "verify", "--", orderId);
  }
  const missing = settled
    ? missingSequence(
        pending.flatMap(({ state }) => state ?? []),
        progress,
      )
    : undefined;
  if (missing !== undefined) {
    return say(
      "gap",
      `Event ${missing} is missing from the pending events of ${subscription}, and nothing after it runs: ${missingBlobText(subscription, encodeOrderId(orderId), facts.eventIds?.get(missing))}. Undelete it, then \`wake\` the order.`,
      "verify",
      "--",
      orderId,
    );
  }
  const head = pending[0];
  if (head === undefined) return undefined;
  const { state } = head;
  const event = `event ${state?.sequence ?? head.id} of ${subscription}`;
  const Event = `Event${event.slice("event".length)}`;
  const waiting = pending.length === 1 ? "" : `, ${pending.length - 1} more behind it`;
  if (deployed !== undefined && !deployed.subscriptions.has(subscription)) {
    const sentence = `Subscription ${subscription} is not in the module, and ${pending.length} of its events are pending: deploy it again, or discard them with \`dead discard --pending\`.`;
    return say("subscription-gone", sentence, "dead", "discard", "--pending", "--reason", "subscription is gone", ...select);
  }
  const pause = isPaused(pauses, subscription, orderId);
  // What the head itself waits for comes first: it would still wait after a resume.
  const also =
    pause === undefined ? "" : `, and paused by ${printable(pause.actor)} at ${printable(pause.at)} (${printable(pause.reason)})`;
  const paused = pause === undefined ? {} : { paused: true as const };
  const own = state?.decision === undefined ? state : undefined;
  if (own?.status === "blocked") {
    const error = `after ${counted(own.attempts, "start")} with "${oneLine(own.lastError ?? "unknown", MAX_ERROR_LENGTH)}"`;
    const sentence = `${Event} is a dead letter ${error} and waits for a human${waiting}${also}: redrive it, or discard it${pause === undefined ? "" : "; what runs then waits for the resume"}.`;
    return {
      ...say("blocked-dead-letter", sentence, "dead", "redrive", "--reason", "cause fixed", "--event", head.id, ...select),
      ...paused,
    };
  }
  // What the module declares is newer than what a worker wrote down.
  const known = deployed === undefined || headType === undefined ? undefined : deployed.eventTypes.has(headType);
  const unknownType = known === false || (known === undefined && state !== undefined && isHandlerMissing(state));
  if (own?.status === "parked" && !unknownType && !isDue(own, nowMs)) {
    const at = new Date(own.nextAttemptMs).toISOString();
    const error = oneLine(own.lastError ?? "unknown", MAX_ERROR_LENGTH);
    const sentence = `${Event} failed ${own.attempts} times, the last time with "${error}", and is tried again at ${at}${waiting}${also}.`;
    return { ...say("waiting-retry", sentence, "dead", "redrive", "--reason", "retry now", "--event", head.id, ...select), ...paused };
  }
  const { decision } = state ?? {};
  // A worker carries it out although the stream is paused. Only what a redrive starts then waits for the resume.
  if (decision !== undefined) {
    const by = `${printable(decision.actor)} decided at ${printable(decision.at)} to ${decision.action} it`;
    const waits = decision.action === "redrive";
    return { ...due(facts, `${event} (${by}${waits ? also : ""})`), subscription, ...(waits ? paused : {}) };
  }
  if (pause !== undefined) {
    const scope = pause.orderId === undefined ? subscription : `this order of ${subscription}`;
    const by = `${printable(pause.actor)} paused ${scope} at ${printable(pause.at)}`;
    const target = pause.orderId === undefined ? [subscription] : [subscription, orderId];
    // What runs may finish (F5), and nothing on its blob tells whether it does.
    const holder = facts.lease === "taken" ? holderOf(facts) : undefined;
    const { held, ...since } = holder ?? {};
    const runs = held === undefined ? "" : ` If it started before the pause, it runs on: ${held}.`;
    const sentence = `${Event} is due when resumed${waiting}: ${by} (${printable(pause.reason)}).${runs}`;
    return { ...say("paused", sentence, "resume", "--reason", "cause fixed", "--", ...target), ...since };
  }
  if (unknownType) {
    const type = headType === undefined ? "" : ` (type ${printable(headType)})`;
    const sentence = `${Event}${type} waits for a deployment: the workflow does not know its type${waiting}. It runs by itself afterwards.`;
    return say("handler-not-deployed", sentence);
  }
  if (facts.lease !== "taken") {
    const verdict = due(facts, `${event}${waiting}`);
    const unsure = deployed === undefined ? " A run with --workflow rules out that its subscription or type is not deployed." : "";
    return { ...verdict, subscription, sentence: `${verdict.sentence}${unsure}` };
  }
  if (state === undefined) return { ...due(facts, `${event}${waiting}`), subscription };
  // The start of a suspect is counted before it runs, that of any other event after it has failed (W4).
  const attempt = state.crashes > 0 ? state.attempts : state.attempts + 1;
  const type = headType === undefined ? {} : { type: headType };
  const start = `${headType === undefined ? "" : `${printable(headType)}, `}attempt ${attempt}`;
  return {
    ...due(facts, `${event} (${start})${waiting}`),
    subscription,
    running: { id: head.id, sequence: state.sequence, ...type, attempt },
  };
}

/** Who holds the lease that is taken, as far as can be told: a holder that was killed holds it until it runs out. */
function holderOf({
  nowMs,
  leaseBreaking,
  heldSinceMs,
  heldBy,
}: OrderFacts): Pick<Verdict, "heldSince" | "heldBy"> & { readonly held: string } {
  const unmarked =
    "the order's lease is held, and there is no holder's mark yet: a worker has just taken it, or a sweep lets it run out because it found leftovers, or its worker died or met a fault before it could leave one";
  if (heldSinceMs === undefined && leaseBreaking !== true) return { held: unmarked };
  const seconds = Math.max(0, Math.round((nowMs - (heldSinceMs ?? 0)) / 1000));
  const since = heldSinceMs === undefined ? {} : { heldSince: new Date(heldSinceMs).toISOString() };
  if (leaseBreaking === true) {
    const time = since.heldSince === undefined ? "" : `, held since ${since.heldSince} (${seconds} s),`;
    return { held: `the order's lease${time} was broken and ends within a minute; another worker can take the order then`, ...since };
  }
  const who = heldBy === undefined ? "a worker" : `the worker ${heldBy}`;
  const held = `${who} has held the order's lease since ${since.heldSince} (${seconds} s), and is at it unless it died within the last minute`;
  return { held, ...since, ...(heldBy === undefined ? {} : { heldBy }) };
}

/** From here on a lease may be held by a worker that hangs, and breaking it is offered. */
const UNLOCK_AFTER_MS = 5 * 60_000;

/**
 * Something may run: either somebody is at it, or nobody knows. The 20 s are what an idle host may take to look at the queue (5 s) and a worker
 * to notice that a pause is over (15 s).
 */
function due(facts: OrderFacts, what: string): Verdict {
  const { orderId, lease, leaseBreaking } = facts;
  const What = what.charAt(0).toUpperCase() + what.slice(1);
  if (lease === "taken") {
    const { held, ...since } = holderOf(facts);
    if (leaseBreaking === true) return { code: "lease-held", sentence: `${What}: ${held}.`, ...since };
    // A worker that has just begun is no reason to break anything, and a dead one's lease is over before this.
    if (facts.heldSinceMs === undefined || facts.nowMs - facts.heldSinceMs < UNLOCK_AFTER_MS) {
      return { code: "lease-held", sentence: `${What}: ${held}. Wait for it: the lease of a holder that died ends by itself.`, ...since };
    }
    return {
      code: "lease-held",
      sentence: `${What}: ${held}. Should its holder hang, the lease can be broken; what it runs may then run twice.`,
      command: ["unlock", "--reason", "the holder hangs", "--", orderId],
      ...since,
    };
  }
  const sentence = `${What}: due, and no worker holds the order's lease. If it was committed, woken or resumed within the last 20 s, a worker is about to take it; if not, its wake-up is late or lost, and the sweep will send another.`;
  return { code: "wake-up-missing", sentence, command: ["wake", "--", orderId] };
}

function statesOf(streams: readonly StreamFacts[]): readonly PendingState[] {
  return streams.flatMap(({ pending }) => pending.flatMap(({ state }) => state ?? []));
}

function sequencesOf(items: readonly { readonly sequence: number }[]): ReadonlySet<number> {
  return new Set(items.map(({ sequence }) => sequence));
}
