/** What an audit of stored orders can find. */
export type FindingKind =
  /** A committed event is in no place, or what comes before a known event is not. */
  | "gap"
  /** Pending and archived although the progress has not passed it, or two events with one sequence. */
  | "double"
  /** Ids and sequences disagree, of events or with the progress, or an event was finished long before the one before it. */
  | "inversion"
  /** A blob or row that is not ours, or without our metadata. */
  | "foreign"
  /** The content of an archive blob is not as big as its index says: the events in it can't be read. */
  | "torn"
  /** Finished, and its pending blob is still there although no worker is at the order. */
  | "stuck-ghost"
  /** A dead letter's index and its event do not belong together. */
  | "dead-index"
  /** Archived although the progress has not come to it. */
  | "beyond-progress"
  /** The order entity is older than the progress. */
  | "behind-progress"
  /** The progress on the lease blob can't be read. */
  | "progress-unreadable"
  /** Older events were removed from the archive, as retention does. */
  | "retention"
  /** A worker is at the order, or died there and left something for the next one: what it may have been moving was not judged. */
  | "moving";

export interface Finding {
  readonly kind: FindingKind;
  /** `damage` needs a look; `notice` is worth knowing and may be as it should be. */
  readonly severity: "damage" | "notice";
  readonly subscription?: string;
  readonly sequence?: number;
  /** May hold names from storage as they are: make it printable before it is shown. */
  readonly text: string;
}
