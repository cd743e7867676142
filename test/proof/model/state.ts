/**
 * One state of the model: storage, queue, processes and writes under way, all of it small whole numbers.
 *
 * Ids and etags are not numbered but compared: what matters of a lease id that a process or a late write carries is whether it is the blob's
 * (`mine`), of an etag whether it is the newest (`fresh`). Both are unique, so what has become old stays old.
 */

/** Events have the numbers 1 to 3; a set of them is a bit mask. */
export const MAX_EVENTS = 3;

export const FREE = 0;
export const TAKEN = 1;
export const ABANDONED = 2;

/** What the lease blob's metadata says; one subscription. */
export interface Progress {
  clean: number;
  relayed: number;
  /** 1: a round has known the stream. */
  known: number;
  /** Last finished event. */
  done: number;
  /** Newest event handed to the stream. */
  waits: number;
}

export interface Shared extends Progress {
  /** The order entity's sequence. */
  order: number;
  /** Events that were ever stored. */
  born: number;
  outbox: number;
  /** Event blobs, and the `previous` that each of them carries. */
  events: number;
  previous1: number;
  previous2: number;
  previous3: number;
  archive: number;
  lease: number;
  /** Highest event that was ever recorded as finished. No part of the protocol: what G2 and G3 are judged by. */
  recorded: number;
  /** Wake-ups in the queue that anybody may receive now. */
  visible: number;
  /** Those that are hidden: put back, or left behind by a dead process. */
  hidden: number;
  /** Of the poison event's blob: starts that were counted, how often it was written, and whether it is blocked. */
  crashes: number;
  version: number;
  blocked: number;
  /** How many processes the poison event has killed. */
  kills: number;
  /** Commits whose transaction has happened. */
  landed: number;
  /** What may still go wrong. */
  crashesLeft: number;
  expiriesLeft: number;
  unansweredLeft: number;
  queueFaultsLeft: number;
  stopsLeft: number;
}

export interface Producer {
  at: number;
  /** Which of its commits it is at. */
  commit: number;
  /** Sequence that it has read the order at. */
  base: number;
  /** Its wake-up: 0 not sent, 1 hidden, 2 fired already. */
  insured: number;
}

export interface Worker {
  at: number;
  /** 1: the received wake-up is its own to delete. */
  holds: number;
  /** It let a lease of the order run out, alive: up to this event no handler has ended with its process. */
  letGo: number;
  /** 1: a wake-up came while its round ran. */
  poke: number;
  /** 1: by its clock the lease is its own. */
  believes: number;
  mine: number;
  fresh: number;
  /** 1: the metadata on the blob was written under its lease. */
  marked: number;
  abandoned: number;
  living: number;
  /** 1: the heads are not judged yet, or a holder before may have died in one. */
  doubt: number;
  /** The progress as it was last written by, or known to, the round. */
  clean: number;
  relayed: number;
  known: number;
  done: number;
  waits: number;
  /** The progress that is being written. */
  toClean: number;
  toRelayed: number;
  toDone: number;
  toWaits: number;
  seen: number;
  nextSeen: number;
  /** Sequence and entities as read. */
  top: number;
  entities: number;
  create: number;
  remove: number;
  /** Pending events of the stream, and the `previous` of each. */
  queue: number;
  queued1: number;
  queued2: number;
  queued3: number;
  /** What the relay has at hand and enqueues when the entities are gone. */
  ready: number;
  suspect: number;
  /** The head that may have been running when a holder died; 0: none. */
  mayHaveRun: number;
  headCrashes: number;
  headVersion: number;
  headBlocked: number;
  /** 1: the start of the poison event that comes next is counted. */
  counted: number;
  /** The stream's last finished event, and the newest that was handed to it. */
  streamDone: number;
  streamWaits: number;
  /** First missing event; 0: none. */
  gap: number;
  /** 1: the head stands, the stream is over for this round. */
  stopped: number;
  failed: number;
  toArchive: number;
  /** 1: relaying what was committed while the round ran. */
  again: number;
}

/** A write that was sent and not answered: it may arrive at any later time, or never. */
export interface Late {
  kind: number;
  /** Worker that sent it; only told apart where lease ids are not fresh (W5). */
  by: number;
  mine: number;
  fresh: number;
  x: number;
  y: number;
  clean: number;
  relayed: number;
  done: number;
  waits: number;
}

export interface State {
  readonly shared: Shared;
  readonly producers: Producer[];
  readonly workers: Worker[];
  readonly late: Late[];
}

export const IDLE = 0;

export function idleWorker(letGo = 0): Worker {
  return {
    at: IDLE,
    holds: 0,
    letGo,
    poke: 0,
    believes: 0,
    mine: 0,
    fresh: 0,
    marked: 0,
    abandoned: 0,
    living: 0,
    doubt: 0,
    clean: 0,
    relayed: 0,
    known: 0,
    done: 0,
    waits: 0,
    toClean: 0,
    toRelayed: 0,
    toDone: 0,
    toWaits: 0,
    seen: 0,
    nextSeen: 0,
    top: 0,
    entities: 0,
    create: 0,
    remove: 0,
    queue: 0,
    queued1: 0,
    queued2: 0,
    queued3: 0,
    ready: 0,
    suspect: 0,
    mayHaveRun: 0,
    headCrashes: 0,
    headVersion: 0,
    headBlocked: 0,
    counted: 0,
    streamDone: 0,
    streamWaits: 0,
    gap: 0,
    stopped: 0,
    failed: 0,
    toArchive: 0,
    again: 0,
  };
}

export interface Faults {
  /** Processes that die, whatever they are doing. */
  readonly crashes: number;
  /** Leases that run out although their holder lives. */
  readonly expiries: number;
  /** Writes without an answer; they arrive at any later time, or never. */
  readonly unanswered: number;
  /** Wake-ups that are lost when sent, come before the commit, or come twice. */
  readonly queue: number;
  /** Rounds that end early because the host stops or the time budget is spent. */
  readonly stops: number;
}

export function initialState(producers: number, workers: number, faults: Faults): State {
  return {
    shared: {
      order: 0,
      born: 0,
      outbox: 0,
      events: 0,
      previous1: 0,
      previous2: 0,
      previous3: 0,
      archive: 0,
      lease: FREE,
      clean: 0,
      relayed: 0,
      known: 0,
      done: 0,
      waits: 0,
      recorded: 0,
      visible: 0,
      hidden: 0,
      crashes: 0,
      version: 0,
      blocked: 0,
      kills: 0,
      landed: 0,
      crashesLeft: faults.crashes,
      expiriesLeft: faults.expiries,
      unansweredLeft: faults.unanswered,
      queueFaultsLeft: faults.queue,
      stopsLeft: faults.stops,
    },
    producers: Array.from({ length: producers }, () => ({ at: IDLE, commit: 0, base: 0, insured: 0 })),
    workers: Array.from({ length: workers }, () => idleWorker()),
    late: [],
  };
}

export function copy({ shared, producers, workers, late }: State): State {
  return {
    shared: { ...shared },
    producers: producers.map((each) => ({ ...each })),
    workers: workers.map((each) => ({ ...each })),
    late: late.map((each) => ({ ...each })),
  };
}

export function bit(event: number): number {
  return 1 << (event - 1);
}

/** Lowest event of a set; 0 if it is empty. */
export function lowest(set: number): number {
  return set === 0 ? 0 : 32 - Math.clz32(set & -set);
}

/** Highest event of a set; 0 if it is empty. */
export function highest(set: number): number {
  return 32 - Math.clz32(set);
}

export function eventsOf(set: number): number[] {
  const events: number[] = [];
  for (let rest = set; rest !== 0; rest &= rest - 1) events.push(lowest(rest));
  return events;
}

export function upTo(event: number): number {
  return (1 << event) - 1;
}

export function previousOf(shared: Shared, event: number): number {
  return event === 1 ? shared.previous1 : event === 2 ? shared.previous2 : shared.previous3;
}

export function setPrevious(shared: Shared, event: number, previous: number): void {
  if (event === 1) shared.previous1 = previous;
  else if (event === 2) shared.previous2 = previous;
  else shared.previous3 = previous;
}

export function queuedOf(worker: Worker, event: number): number {
  return event === 1 ? worker.queued1 : event === 2 ? worker.queued2 : worker.queued3;
}

export function setQueued(worker: Worker, event: number, previous: number): void {
  if (event === 1) worker.queued1 = previous;
  else if (event === 2) worker.queued2 = previous;
  else worker.queued3 = previous;
}
