/**
 * Where the emulator differs from the service in a way that could hide a bug, and the tests that look there all the same: by a fault, by an
 * answer of the service's own making, or without any storage. blind-spots.test.ts holds that each of them exists.
 */
export interface BlindSpot {
  /** What the service does and the emulator does not. */
  readonly divergence: string;
  /** File below test/, and the beginning of a test's name or a piece of it. */
  readonly tests: readonly (readonly [file: string, name: string])[];
}

const HERE = "proof/blind-spots.test.ts";

export const BLIND_SPOTS: readonly BlindSpot[] = [
  {
    divergence: "refuses names of more than 1,024 characters and more than 254 segments, and loses dots at the end of a segment",
    tests: [
      [HERE, "the longest names of all containers"],
      ["core/order-id.test.ts", "the longest id has a key of 512 characters"],
    ],
  },
  { divergence: "may sort other characters than ASCII differently in listings", tests: [[HERE, "names are visible ASCII"]] },
  {
    divergence: "refuses entities above 1 MiB and more than 252 properties of the application's own",
    tests: [
      ["storage/limits.test.ts", "C26: an order above 1 MiB is refused before any request"],
      ["contract/application-rows.suite.ts", "253 properties are refused with too-large"],
      ["storage/limits.test.ts", "a transaction above 4 MiB is refused before any request"],
    ],
  },
  {
    divergence: "refuses more than 8 KiB of metadata",
    tests: [
      ["contract/order-leases.suite.ts", "metadata that a header can't carry is refused before any request"],
      ["core/progress.test.ts", "MAX_METADATA_BYTES"],
      ["core/archive-bundle.test.ts", "the index has room in a blob's metadata"],
    ],
  },
  {
    divergence: "answers 409 or 412 to a wrong lease id, with codes of several names, and 404 where the emulator makes the blob",
    tests: [
      ["storage/storage-error.test.ts", "answered $status $serviceCode is $code"],
      [HERE, "W2: a progress write is fenced by every refusal"],
    ],
  },
  {
    divergence: "may hold a lease that ran out for up to a minute more",
    tests: [[HERE, "G5: a lease that the service holds for a minute after its end"]],
  },
  { divergence: "answers a stale receipt with 404 too", tests: [[HERE, "C33: a stale receipt"]] },
  {
    divergence: "lets messages reappear before their time, twice, and in any order",
    tests: [
      [HERE, "C33: a wake-up that reappears at another host"],
      ["worker/host-renewal.test.ts", "a message that was given up for lost and comes back here during its round is ours again"],
    ],
  },
  { divergence: "answers 400 MessageTooLarge, not 413", tests: [["storage/storage-error.test.ts", "MessageTooLarge"]] },
  {
    divergence: "gives empty pages with a continuation token",
    tests: [
      ["storage/faults.test.ts", "readOutbox goes on after pages without rows"],
      ["storage/faults.test.ts", "list goes on after pages without blobs"],
      ["storage/scans.test.ts", "W10: an empty page is a page"],
    ],
  },
  {
    divergence: "throttles: 503 ServerBusy, 429 with Retry-After",
    tests: [
      ["proof/faults/faults.test.ts", "one fault at some calls"],
      ["storage/faults.test.ts", "W2: writeMetadata of a lease blob is repeated when the service was too busy"],
    ],
  },
  {
    divergence: "answers 500 OperationTimedOut to what it has done or not",
    tests: [
      ["proof/faults/faults.test.ts", "one fault at some calls"],
      ["storage/faults.test.ts", "C03: a 202 with an inner %d %s is unavailable"],
    ],
  },
  {
    divergence: "may fail single sub-requests of a batch",
    tests: [["storage/faults.test.ts", "W11: a blob that a batch could not delete is deleted by itself"]],
  },
  {
    divergence: "is reached over connections that break in the middle of an answer",
    tests: [["proof/network/broken-answers.test.ts", "an answer that breaks off"]],
  },
  {
    divergence: "keeps a deleted container, queue or table for a while",
    tests: [["storage/storage-error.test.ts", "ContainerBeingDeleted"]],
  },
  { divergence: "has accounts with hierarchical namespace", tests: [["storage/connect.test.ts", "refuses hierarchical namespace"]] },
];
