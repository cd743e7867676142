/**
 * The metadata of a pending event blob: enough to order the stream and to see the event's state in a listing, without reading the blob.
 * Every change is conditional on the blob's etag, so an operator and a worker can't overwrite each other (F4).
 */
import { decodeMetadataText, decodeWhole, encodeMetadataText } from "./metadata-text.ts";

/** All metadata of a blob has 8 KiB. */
const MAX_ENCODED_ERROR = 2_000;
const MAX_ENCODED_REASON = 1_000;
const MAX_ENCODED_HISTORY = 3_500;

/** What an operator wants of a head that waits; the worker carries it out under the lease (F4). */
export interface Decision {
  readonly action: "redrive" | "discard";
  readonly actor: string;
  readonly reason: string;
  /** When it was recorded, ISO 8601. */
  readonly at: string;
}

/** Attempts that ended alike, one after another. */
export interface FailureRecord {
  /** When the last of them ended, ISO 8601. */
  readonly at: string;
  /** How many starts. */
  readonly starts: number;
  readonly error: string;
}

export interface PendingState {
  /** Sequence of the event in its order. */
  readonly sequence: number;
  /** Sequence of the event before it in this subscription's stream; 0 for the first. A missing blob breaks this chain (W3). */
  readonly previous: number;
  /** Starts since the event was relayed or redriven, as far as they were counted: at every failure, and before the start of a suspect (W4). */
  readonly attempts: number;
  /** Starts in a row that ended with the process. The start of a suspect is counted here too before it happens (W4); any other end sets it to 0. */
  readonly crashes: number;
  /** `pending`: may run. `parked`: waits for `nextAttemptMs`. `blocked`: a dead letter that waits for a human. */
  readonly status: "pending" | "parked" | "blocked";
  /** When a parked event may run again, milliseconds since 1970; 0 otherwise. */
  readonly nextAttemptMs: number;
  /** How long the wait of a parked event was meant to be; 0 otherwise. */
  readonly waitMs: number;
  /**
   * How it ends, on record before the progress passes it: it never runs again, and this becomes of it whoever brings it to its end (F3, G6).
   * `dead-lettered`: its stream goes on without it. `unwanted`: its subscription, asked again, did not want it. Undefined for what may run, and
   * for what was handled or discarded.
   */
  readonly ending?: "dead-lettered" | "unwanted";
  /** The subscription's predicate threw when the event was relayed: it is asked again before the handler runs. */
  readonly undecided: boolean;
  /** What went wrong last. Cut to what the metadata has room for. */
  readonly lastError?: string;
  /** Failures so far, oldest first; the middle is left out when there is no room. */
  readonly history: readonly FailureRecord[];
  readonly decision?: Decision;
}

export function freshState(sequence: number, previous: number, undecided: boolean = false): PendingState {
  return { sequence, previous, undecided, attempts: 0, crashes: 0, status: "pending", nextAttemptMs: 0, waitMs: 0, history: [] };
}

/** How much clocks may differ. */
const CLOCK_TOLERANCE_MS = 60_000;

/**
 * May a parked event run again? Its time has come; or its time is further away than it was ever meant to wait: then a clock was wrong when it
 * was parked, and the event would wait for as long as that clock was ahead (C30).
 */
export function isDue({ status, nextAttemptMs, waitMs }: PendingState, nowMs: number): boolean {
  if (status !== "parked") return false;
  const leftMs = nextAttemptMs - nowMs;
  return leftMs <= 0 || leftMs > waitMs + CLOCK_TOLERANCE_MS;
}

/** Was its type not deployed when a worker last looked at it? */
export function isHandlerMissing({ lastError }: PendingState): boolean {
  return lastError?.startsWith("handler-missing:") === true;
}

/** Errors in the history are cut to this. */
const MAX_HISTORY_ERROR = 200;
/** When there is no room, first the texts get shorter, then the middle is left out. */
const HISTORY_ERROR_LENGTHS: readonly number[] = [MAX_HISTORY_ERROR, 120, 60];

/** The history after one more failure. */
export function appendFailure(history: readonly FailureRecord[], failure: FailureRecord): FailureRecord[] {
  const cut = { ...failure, error: cutError(failure.error, MAX_HISTORY_ERROR) };
  const last = history.at(-1);
  // What is read back may have been cut shorter.
  if (last !== undefined && isSameError(last.error, cut.error))
    return [...history.slice(0, -1), { ...cut, starts: last.starts + failure.starts }];
  return [...history, cut];
}

export function encodePendingState(state: PendingState): Record<string, string> {
  const { decision } = state;
  return {
    sequence: String(state.sequence),
    previous: String(state.previous),
    attempts: String(state.attempts),
    ...(state.undecided ? { undecided: "1" } : {}),
    ...(state.ending === undefined ? {} : { ending: state.ending }),
    ...(state.crashes === 0 ? {} : { crashes: String(state.crashes) }),
    ...(state.status === "pending" ? {} : { status: state.status }),
    ...(state.nextAttemptMs === 0 ? {} : { nextattempt: String(state.nextAttemptMs) }),
    ...(state.waitMs === 0 ? {} : { waitms: String(state.waitMs) }),
    ...(state.lastError === undefined || state.lastError === ""
      ? {}
      : { lasterror: encodeMetadataText(state.lastError, MAX_ENCODED_ERROR) }),
    ...(state.history.length === 0 ? {} : { history: encodeHistory(state.history) }),
    ...(decision === undefined ? {} : encodeDecision(decision)),
  };
}

/** As it stands on a pending event, and later on the archived one. */
export function encodeDecision({ action, actor, at, reason }: Decision): Record<string, string> {
  return {
    decision: action,
    ...(actor === "" ? {} : { decidedby: encodeMetadataText(actor, MAX_ENCODED_REASON / 2) }),
    ...(at === "" ? {} : { decidedat: at }),
    ...(reason === "" ? {} : { decisionreason: encodeMetadataText(reason, MAX_ENCODED_REASON) }),
  };
}

/** Undefined for metadata that {@link encodePendingState} did not write: the blob itself has to be asked. */
export function decodePendingState(metadata: Readonly<Record<string, string>>): PendingState | undefined {
  const sequence = decodeWhole(metadata["sequence"]);
  const previous = decodeWhole(metadata["previous"]);
  if (sequence === undefined || sequence < 1 || previous === undefined || previous >= sequence) return undefined;
  const { status, ending, lasterror: lastError } = metadata;
  const decision = decodeDecision(metadata);
  return {
    sequence,
    previous,
    attempts: decodeWhole(metadata["attempts"]) ?? 0,
    undecided: metadata["undecided"] !== undefined,
    crashes: decodeWhole(metadata["crashes"]) ?? 0,
    status: status === "parked" || status === "blocked" ? status : "pending",
    nextAttemptMs: decodeWhole(metadata["nextattempt"]) ?? 0,
    waitMs: decodeWhole(metadata["waitms"]) ?? 0,
    ...(ending === "dead-lettered" || ending === "unwanted" ? { ending } : {}),
    ...(lastError === undefined ? {} : { lastError: decodeMetadataText(lastError) }),
    history: decodeHistory(metadata["history"]),
    ...(decision === undefined ? {} : { decision }),
  };
}

/** Is what was stored this very decision? Its texts may have been cut to what the metadata has room for. */
export function isSameDecision(stored: Decision, own: Decision): boolean {
  const kept = decodeDecision(encodeDecision(own));
  return kept?.action === stored.action && kept.at === stored.at && kept.actor === stored.actor && kept.reason === stored.reason;
}

/** Undefined if nobody has decided. */
export function decodeDecision(metadata: Readonly<Record<string, string>>): Decision | undefined {
  const { decision: action, decidedby, decidedat, decisionreason } = metadata;
  if (action !== "redrive" && action !== "discard") return undefined;
  return {
    action,
    actor: decodeMetadataText(decidedby ?? ""),
    reason: decodeMetadataText(decisionreason ?? ""),
    at: decidedat ?? "",
  };
}

/** Cut to well-formed text, so that it reads back as it is. */
function cutError(error: string, length: number): string {
  return error.slice(0, length).toWellFormed();
}

function isSameError(stored: string, error: string): boolean {
  return stored === error || HISTORY_ERROR_LENGTHS.some((length) => stored.length === length && stored === cutError(error, length));
}

function encodeHistory(history: readonly FailureRecord[]): string {
  for (const length of HISTORY_ERROR_LENGTHS) {
    const text = encodeRecords(history, length);
    if (text.length <= MAX_ENCODED_HISTORY) return text;
  }
  // The first failure and the latest ones tell most. Two records of the shortest texts have room, whatever the texts are.
  let kept = history;
  for (;;) {
    kept = kept.toSpliced(1, 1);
    const text = encodeRecords(kept, HISTORY_ERROR_LENGTHS.at(-1)!);
    if (kept.length <= 2 || text.length <= MAX_ENCODED_HISTORY) return text;
  }
}

function encodeRecords(records: readonly FailureRecord[], length: number): string {
  return encodeMetadataText(JSON.stringify(records.map(({ at, starts, error }) => [at, starts, cutError(error, length)])));
}

function decodeHistory(text: string | undefined): FailureRecord[] {
  if (text === undefined) return [];
  try {
    const records = JSON.parse(decodeMetadataText(text)) as unknown;
    if (!Array.isArray(records)) return [];
    return records.flatMap((record: unknown) => {
      if (!Array.isArray(record)) return [];
      const [at, starts, error] = record as unknown[];
      return typeof at === "string" && typeof starts === "number" && typeof error === "string" ? [{ at, starts, error }] : [];
    });
  } catch {
    return [];
  }
}
