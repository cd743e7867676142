/** A producer: src/producer/commit.ts and transaction-writer.ts, one storage call a step. */
import { insertEvents, apply, request, WRITE } from "./storage.ts";
import { Violation, type Emit, type Model } from "./model.ts";
import { IDLE, type Producer, type State } from "./state.ts";

export const PRODUCER_AT = { idle: IDLE, read: 1, write: 2, check: 3, insert: 4, fire: 5 } as const;

/** Number of a producer's commit among all commits. */
function commitNumber({ commits }: Model, producer: number, commit: number): number {
  return commits.slice(0, producer).reduce((sum, own) => sum + own.length, 0) + commit;
}

export function producerSteps(model: Model, state: State, index: number, emit: Emit): void {
  const { kept, commits } = model;
  const now = state.producers[index]!;
  const count = commits[index]![now.commit];
  if (count === undefined) return;
  const number = commitNumber(model, index, now.commit);
  const who = `producer ${index + 1}`;
  const step = (label: string, change: (producer: Producer, state: State) => void, kind?: "fault"): void =>
    emit(`${who} ${label}`, (next) => change(next.producers[index]!, next), kind);
  const next = (producer: Producer): void => {
    Object.assign(producer, { at: IDLE, commit: producer.commit + 1, base: 0, insured: 0 });
  };
  switch (now.at) {
    case PRODUCER_AT.idle:
      // One step: until the transaction is sent it makes no difference in which order they happen.
      step(
        `${kept.insurance ? "sends its wake-up, hidden, and " : ""}reads the order at sequence ${state.shared.order}`,
        (producer, { shared }) => {
          Object.assign(producer, { insured: kept.insurance ? 1 : 0, base: shared.order, at: PRODUCER_AT.write });
        },
      );
      if (kept.insurance && state.shared.queueFaultsLeft > 0)
        step(
          `sends its wake-up, which the queue does not take, and reads the order at sequence ${state.shared.order}`,
          (producer, { shared }) => {
            shared.queueFaultsLeft -= 1;
            Object.assign(producer, { base: shared.order, at: PRODUCER_AT.write });
          },
          "fault",
        );
      break;
    case PRODUCER_AT.read:
      step(`reads the order at sequence ${state.shared.order}`, (producer, { shared }) => {
        Object.assign(producer, { base: shared.order, at: PRODUCER_AT.write });
      });
      break;
    case PRODUCER_AT.write: {
      const what = `its transaction: ${count} event(s) after sequence ${now.base}`;
      const transaction = request(WRITE.commit, { x: number, y: count, done: now.base });
      step(`sends ${what}`, (producer, changed) => {
        const answer = apply(model, changed, transaction);
        // C2: the conflict may be with its own transaction, sent before.
        if (answer === "conflict") producer.at = kept.C2 ? PRODUCER_AT.check : PRODUCER_AT.read;
        else producer.at = kept.C5 ? PRODUCER_AT.fire : PRODUCER_AT.insert;
      });
      if (state.shared.unansweredLeft > 0 && kept.C5)
        step(
          `sends ${what}; no answer comes`,
          (producer, changed) => {
            changed.shared.unansweredLeft -= 1;
            changed.late.push(transaction);
            producer.at = kept.C2 ? PRODUCER_AT.check : PRODUCER_AT.write;
          },
          "fault",
        );
      break;
    }
    case PRODUCER_AT.insert:
      step(`inserts its outbox entities, after the order entity`, (producer, { shared }) => {
        insertEvents(shared, producer.base, count);
        producer.at = PRODUCER_AT.fire;
      });
      break;
    case PRODUCER_AT.check: {
      const mine = (state.shared.landed & (1 << number)) !== 0;
      step(`asks the order's commit tokens: ${mine ? "it was mine" : "not mine"}`, (producer, { shared }) => {
        if (mine) producer.at = PRODUCER_AT.fire;
        // Not there yet, and nobody else's either: the same transaction again. Its etag lets it happen once.
        else producer.at = shared.order === producer.base ? PRODUCER_AT.write : PRODUCER_AT.read;
      });
      break;
    }
    case PRODUCER_AT.fire:
      if ((state.shared.landed & (1 << number)) === 0) throw new Violation("G1", `${who} takes a commit for done that is not`);
      step(`makes its wake-up visible`, (producer, { shared }) => {
        shared.visible += 1;
        next(producer);
      });
      if (state.shared.queueFaultsLeft > 0)
        step(
          `can't make its wake-up visible`,
          (producer, { shared }) => {
            shared.queueFaultsLeft -= 1;
            if (producer.insured === 1) shared.hidden += 1;
            next(producer);
          },
          "fault",
        );
      break;
    default:
      throw new Error(`no producer is at ${now.at}`);
  }
  if (now.insured === 1 && state.shared.queueFaultsLeft > 0)
    step(
      `finds that its hidden wake-up has fired early`,
      (producer, { shared }) => {
        shared.queueFaultsLeft -= 1;
        shared.visible += 1;
        producer.insured = 2;
      },
      "fault",
    );
  if (now.at !== IDLE && state.shared.crashesLeft > 0)
    step(
      `dies`,
      (producer, { shared }) => {
        shared.crashesLeft -= 1;
        if (producer.insured === 1) shared.hidden += 1;
        next(producer);
      },
      "fault",
    );
}
