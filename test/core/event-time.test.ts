import { describe, expect, test } from "vitest";
import { nextEventId, type EventId } from "../../src/core/event-id.ts";
import { eventTimeMs, pendingAgeMs } from "../../src/core/event-time.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
const NOW = Date.UTC(2026, 0, 1);

function committedAt(ms: number): EventId {
  return nextEventId(undefined, ms, () => 0.5);
}

describe("how long a pending event has waited", () => {
  test.each([
    { what: "since its commit, however young its blob is", committedMs: NOW - 3_600_000, blobAgeMs: 1_000, expected: 3_600_000 },
    { what: "at least as long as its blob", committedMs: NOW - 1_000, blobAgeMs: 60_000, expected: 60_000 },
    { what: "not less because the producer's clock was ahead", committedMs: NOW + 3_600_000, blobAgeMs: 1_000, expected: 1_000 },
    { what: "a year, for an order that waits for a human", committedMs: NOW - 365 * DAY_MS, blobAgeMs: 0, expected: 365 * DAY_MS },
    { what: "as long as its blob, if the producer's clock stood in 1970", committedMs: 86_400_000, blobAgeMs: 1_000, expected: 1_000 },
  ])("$what", ({ committedMs, blobAgeMs, expected }) => {
    const id = committedAt(committedMs);
    expect(eventTimeMs(id)).toBe(committedMs);
    expect(pendingAgeMs(id, blobAgeMs, NOW)).toBe(expected);
  });
});
