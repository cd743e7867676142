/** What the account does with a write, whenever it arrives. Each function changes the state in place and returns the answer. */
import { Violation, type Model } from "./model.ts";
import { bit, eventsOf, FREE, IDLE, MAX_EVENTS, setPrevious, TAKEN, type Late, type Shared, type State } from "./state.ts";

/** The kinds of writes; a `Late` is one of them on its way. */
export const WRITE = {
  commit: 0,
  acquire: 1,
  createBlob: 2,
  deleteEntities: 3,
  progress: 4,
  count: 5,
  block: 6,
  archive: 7,
  deleteBlobs: 8,
  release: 9,
} as const;

export type Answer = "done" | "conflict" | "exists" | "refused" | "gone";

export function request(kind: number, fields: Partial<Late> = {}): Late {
  return { by: 0, mine: 0, fresh: 0, x: 0, y: 0, clean: 0, relayed: 0, done: 0, waits: 0, ...fields, kind };
}

export function apply(model: Model, state: State, late: Late): Answer {
  const { shared } = state;
  switch (late.kind) {
    case WRITE.commit:
      return commit(model, state, late);
    case WRITE.acquire:
      return acquire(model, state, late);
    case WRITE.createBlob:
      if ((shared.events & bit(late.x)) !== 0) return "exists";
      shared.events |= bit(late.x);
      setPrevious(shared, late.x, late.y);
      return "done";
    case WRITE.deleteEntities:
      shared.outbox &= ~late.x;
      return "done";
    case WRITE.progress:
      return writeProgress(model, state, late);
    case WRITE.count:
    case WRITE.block:
      return writeHead(model, shared, late);
    case WRITE.archive:
      shared.archive |= bit(late.x);
      return "done";
    case WRITE.deleteBlobs:
      deleteBlobs(model, shared, late.x);
      return "done";
    case WRITE.release:
      return release(model, state, late);
    default:
      throw new Error(`no write has the kind ${late.kind}`);
  }
}

/** The entity-group transaction of a commit: x is the commit's number, y its number of events, `done` the sequence it was decided on. */
function commit({ kept }: Model, { shared }: State, { x, y, done: base }: Late): Answer {
  if (kept.C1 && shared.order !== base) return "conflict";
  if ((shared.landed & (1 << x)) !== 0) throw new Violation("G1", `the events of commit ${x + 1} are stored twice`);
  for (let event = base + 1; event <= base + y; event++) {
    if ((shared.born & bit(event)) !== 0) throw new Violation("G1", `two commits gave the sequence ${event}`);
    if (event > MAX_EVENTS) throw new Error("the model has no room for that many events");
  }
  shared.order = base + y;
  shared.landed |= 1 << x;
  if (kept.C5) insertEvents(shared, base, y);
  return "done";
}

export function insertEvents(shared: Shared, base: number, count: number): void {
  for (let event = base + 1; event <= base + count; event++) {
    shared.born |= bit(event);
    shared.outbox |= bit(event);
  }
}

/** `fresh`: the etag that the blob was read at. The lease id is a new one, so nobody else's is the blob's any more. */
function acquire({ kept }: Model, state: State, late: Late): Answer {
  const { shared, workers } = state;
  if (kept["W3-etag"] && late.fresh === 0) return "conflict";
  if (shared.lease === TAKEN) return "refused";
  shared.lease = TAKEN;
  for (const [index, worker] of workers.entries()) if (kept.W5 || index !== late.by) worker.mine = 0;
  for (const other of state.late) if (kept.W5 || other.by !== late.by) other.mine = 0;
  return "done";
}

function release({ kept }: Model, { shared, workers, late: others }: State, { mine }: Late): Answer {
  if (mine === 0 || shared.lease === FREE) return "done";
  shared.lease = FREE;
  // Without W5 the same id may come back.
  if (kept.W5) for (const each of [...workers, ...others]) each.mine = 0;
  return "done";
}

/** W2: the commit point. */
function writeProgress({ kept }: Model, { shared, workers, late: others }: State, late: Late): Answer {
  if (kept["W2-fence"]) {
    if (shared.lease !== TAKEN || late.mine === 0) return "refused";
    if (kept["W2-etag"] && late.fresh === 0) return "conflict";
  }
  const { clean, relayed, done, waits } = late;
  Object.assign(shared, { clean, relayed, known: 1, done, waits });
  shared.recorded = Math.max(shared.recorded, done);
  for (const other of others) other.fresh = 0;
  for (const worker of workers) {
    worker.fresh = 0;
    worker.marked = late.mine === 1 && worker.mine === 1 && worker.at !== IDLE ? 1 : 0;
  }
  return "done";
}

/** A head's state on its event blob. `x` the event, `y` the version it was read at, `done` the crashes to write. */
function writeHead({ poison }: Model, shared: Shared, { kind, x, y, done }: Late): Answer {
  if ((shared.events & bit(x)) === 0) return "gone";
  if (x !== poison) return "done";
  if (shared.version !== y) return "conflict";
  shared.version += 1;
  shared.crashes = done;
  if (kind === WRITE.block) shared.blocked = 1;
  return "done";
}

function deleteBlobs({ poison }: Model, shared: Shared, set: number): void {
  shared.events &= ~set;
  for (const event of eventsOf(set)) setPrevious(shared, event, 0);
  if (poison !== 0 && (set & bit(poison)) !== 0) Object.assign(shared, { crashes: 0, version: 0, blocked: 0 });
}

/** A write that can't do anything any more, whatever happens: the state need not remember it. */
export function isSpent({ kept }: Model, { shared }: State, late: Late): boolean {
  switch (late.kind) {
    case WRITE.commit:
      return kept.C1 && shared.order !== late.done;
    case WRITE.acquire:
      return kept["W3-etag"] && late.fresh === 0;
    case WRITE.progress:
      return kept["W2-fence"] && (late.mine === 0 || (kept["W2-etag"] && late.fresh === 0));
    case WRITE.release:
      return kept.W5 && late.mine === 0;
    case WRITE.archive:
      return (shared.archive & bit(late.x)) !== 0;
    default:
      return false;
  }
}
