/** The rules of the protocol that the model can do without, one at a time (design §3 to §7). */

export const RULES = {
  C1: "every commit goes through the order entity's etag",
  C2: "a conflict is first asked: was it mine?",
  C5: "order entity and outbox entities are one transaction",
  insurance: "the hidden wake-up is sent before the commit (§4.1), not after it",
  reconcile: "reconcile wakes orders with outbox entities that nobody relays (C4, §7)",
  sweep: "the sweep wakes orders with event blobs that nobody handles (§7)",
  mark: "the sweep marks an order that holds leftovers, so that the next round looks for them (§7, W3)",
  W1: "an outbox entity is deleted only after its event blob exists",
  "W2-recorded": "the next event starts only after the one before is recorded as finished",
  "W2-fence": "progress is written only under the lease, with its id",
  "W2-etag": "each progress write is conditional on the etag of the one before",
  "W2-ghost": "an event blob that the progress has passed is never run",
  "W3-list": "event blobs are listed when the arithmetic of the sequence does not add up",
  "W3-abandoned": "event blobs are listed when the holder before never said good-bye",
  "W3-etag": "the lease is acquired on the etag at which its blob was read",
  W4: "the start of a suspect is counted before its handler runs",
  W5: "every acquisition has a fresh lease id",
  "W5-lost": "a holder that may have lost its lease starts nothing",
  "W6-kept": "a wake-up that found the lease taken is put back",
  look: "the holder looks at the outbox once more after it has released",
  archive: "an event blob is deleted only after its archive blob exists (G6)",
} as const;

export type Rule = keyof typeof RULES;

export const RULE_NAMES = Object.keys(RULES) as readonly Rule[];

/** True: the rule is kept. */
export type Kept = Readonly<Record<Rule, boolean>>;

export function allBut(without?: Rule): Kept {
  return Object.fromEntries(RULE_NAMES.map((rule) => [rule, rule !== without])) as Kept;
}
