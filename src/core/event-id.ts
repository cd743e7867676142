/** Event ids: ULIDs that grow along an order whatever the clocks say (C1, design §4.3). */
import { decodeTime, encodeTime, ulid } from "ulid";
import { OutboxError } from "./errors.ts";

declare const brand: unique symbol;
/** A ULID in its canonical upper-case form. Ids of one order compare in commit order, by code unit. */
export type EventId = string & { readonly [brand]: "EventId" };

const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;
export const EVENT_ID_LENGTH = 26;
const MAX_ULID_TIME = 281_474_976_710_655;
const TIME_LENGTH = 10;

export function isEventId(text: string): text is EventId {
  return ULID.test(text);
}

/**
 * The id of the next event: greater than `last` even if the clock stands still, steps back or belongs to a machine that is minutes behind,
 * and even if the random part of `last` is all Z. Two writers that continue from the same `last` still get different ids.
 *
 * @param random returns numbers in [0, 1)
 */
export function nextEventId(last: EventId | undefined, nowMs: number, random: () => number): EventId {
  const lastTime = last === undefined ? 0 : decodeTime(last);
  const time = Math.max(Math.trunc(nowMs), lastTime);
  if (!(time >= 0 && time < MAX_ULID_TIME)) {
    throw new OutboxError(
      "invalid-event",
      `no event id can follow ${last ?? "the start"} at clock ${nowMs}: a ULID ends in the year 10889`,
    );
  }
  const candidate = ulidAt(time, random);
  return last === undefined || candidate > last ? candidate : ulidAt(time + 1, random);
}

/** The library's own `ulid` takes time 0 for "now". */
function ulidAt(time: number, random: () => number): EventId {
  return `${encodeTime(time, TIME_LENGTH)}${ulid(1, random).slice(TIME_LENGTH)}` as EventId;
}
