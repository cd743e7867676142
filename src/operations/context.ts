/** What every operation works on, and who asks for it. */
import type { Clock } from "../core/clock.ts";
import { OutboxError, printable } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { Storage } from "../core/ports.ts";
import { systemClock } from "../system/clock.ts";

/** Of changes that can be tried out. */
export interface ChangeOptions {
  /** Say what would be done, change nothing. Default false. */
  readonly dryRun?: boolean;
}

export interface OperationsContext {
  readonly storage: Storage;
  /** Default: the system's. */
  readonly clock?: Clock;
  /** Default: silent. */
  readonly logger?: Logger;
  /** Numbers in [0, 1), for the ids of audit records. Default `Math.random`. */
  readonly random?: () => number;
  /** Ends the operation between two steps: what it has begun is completed first. */
  readonly signal?: AbortSignal;
}

/** Who wants a change, and why. Both end up in the audit log and, where there is one, on the blob that is changed. */
export interface Operator {
  /** 1 to 100 UTF-16 units. */
  readonly actor: string;
  /** 1 to 500 UTF-16 units. */
  readonly reason: string;
}

const MAX_ACTOR_LENGTH = 100;
const MAX_REASON_LENGTH = 500;

/** Throws `invalid-option` for a missing or overlong actor or reason: a change that nobody can explain later is refused now (G6). */
export function assertOperator(operator: Operator): void {
  assertText("actor", operator.actor, MAX_ACTOR_LENGTH);
  assertText("reason", operator.reason, MAX_REASON_LENGTH);
}

function assertText(name: string, text: unknown, maxLength: number): void {
  if (typeof text !== "string" || text.trim() === "" || text.length > maxLength || !text.isWellFormed()) {
    const got = typeof text === "string" ? JSON.stringify(printable(text, 60)) : String(text);
    throw new OutboxError("invalid-option", `${name} is ${got}: well-formed text of 1 to ${maxLength} UTF-16 units is needed`);
  }
}

export function clockOf({ clock = systemClock }: Pick<OperationsContext, "clock">): Clock {
  return clock;
}

export function nowIso(context: Pick<OperationsContext, "clock">): string {
  return new Date(clockOf(context).now()).toISOString();
}

/** Throws `aborted` once the operation's signal has. */
export function assertGoesOn({ signal }: OperationsContext, what: string): void {
  if (signal?.aborted === true) throw new OutboxError("aborted", `${what} was stopped`, { cause: signal.reason });
}
