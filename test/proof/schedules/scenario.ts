/** What is tried: who commits what, which handlers fail, and a schedule. Numbers and lists alone, so that fast-check can make the smallest one. */
import * as fc from "fast-check";

export const SUBSCRIPTIONS = ["audit", "mail"] as const;
export type SubscriptionName = (typeof SUBSCRIPTIONS)[number];

export interface CommitPlan {
  readonly producer: 0 | 1;
  readonly order: 0 | 1;
  /** Types of its events; `mail` wants `step` alone. */
  readonly events: readonly ("step" | "other")[];
}

/** Of the handler of one event, for its first few starts. */
export interface FailurePlan {
  /** Counted over all commits, around. */
  readonly event: number;
  readonly subscription: SubscriptionName;
  readonly how: "throws" | "gives-up" | "hangs";
  readonly times: number;
}

export const INCIDENTS = [
  "kill",
  "stop",
  "freeze",
  "thaw",
  "lose-answer",
  "refuse",
  "repeat",
  "pass-1s",
  "pass-11s",
  "pass-31s",
  "pass-61s",
  "sweep",
  "reconcile",
  "redrive",
  "discard",
  "pause",
  "resume",
  "unlock",
  "wake",
] as const;

export interface Incident {
  /** Happens before this step. */
  readonly step: number;
  readonly what: (typeof INCIDENTS)[number];
  /** To which process, call or order: counted around. */
  readonly target: number;
}

export interface Scenario {
  readonly commits: readonly CommitPlan[];
  readonly failures: readonly FailurePlan[];
  /** Which action is next, step by step; 0 is the oldest one, and so it is after the last of them. */
  readonly choices: readonly number[];
  readonly incidents: readonly Incident[];
}

const MAX_STEPS = 150;

const commit: fc.Arbitrary<CommitPlan> = fc.record({
  producer: fc.constantFrom(0 as const, 1 as const),
  order: fc.oneof({ weight: 4, arbitrary: fc.constant(0 as const) }, { weight: 1, arbitrary: fc.constant(1 as const) }),
  events: fc.array(
    fc.oneof({ weight: 3, arbitrary: fc.constant("step" as const) }, { weight: 1, arbitrary: fc.constant("other" as const) }),
    {
      minLength: 1,
      maxLength: 2,
    },
  ),
});

const failure: fc.Arbitrary<FailurePlan> = fc.record({
  event: fc.nat(3),
  subscription: fc.constantFrom(...SUBSCRIPTIONS),
  how: fc.constantFrom("throws", "gives-up", "hangs"),
  times: fc.integer({ min: 1, max: 3 }),
});

const incident: fc.Arbitrary<Incident> = fc.record({
  step: fc.nat(MAX_STEPS),
  what: fc.constantFrom(...INCIDENTS),
  target: fc.nat(7),
});

/** Three kinds of order: as it comes with a few exceptions, half and half, any. */
const choices = fc.oneof(
  ...[9, 1, 0].map((weight) =>
    fc.array(weight === 0 ? fc.nat(11) : fc.oneof({ weight, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.nat(11) }), {
      maxLength: MAX_STEPS,
      size: "max",
    }),
  ),
);

export const scenarios: fc.Arbitrary<Scenario> = fc.record({
  commits: fc.array(commit, { minLength: 1, maxLength: 4, size: "max" }),
  failures: fc.array(failure, { maxLength: 2, size: "max" }),
  choices,
  incidents: fc.array(incident, { maxLength: 6, size: "max" }),
});
