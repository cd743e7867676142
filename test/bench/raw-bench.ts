/** Raw runs on an account: callers are made once and used again, because what they need takes longer to make than to use. */
import { inLanes } from "../../src/operations/lanes.ts";
import { connect, freshPrefix } from "./account.ts";
import type { Emulator } from "../emulator/emulator.ts";
import type { Mix, Operation } from "./mix.ts";
import { roomCaller, type RoomAccount } from "./raw-room.ts";
import { runMix, runOperations, type RawCaller, type RawRun, type Sizes } from "./raw-run.ts";

const FILLERS = 16;

export class RawBench {
  readonly #room: RoomAccount;
  readonly #callers: RawCaller[] = [];

  private constructor(room: RoomAccount) {
    this.#room = room;
  }

  /** In a corner of its own. */
  static async start({ connectionString }: Emulator): Promise<RawBench> {
    const [storage, inbox] = [connect(connectionString, freshPrefix()), connect(connectionString, freshPrefix())];
    await Promise.all([storage.createResources(), inbox.createResources()]);
    return new RawBench({ storage, inbox });
  }

  /** The calls that so many events need. */
  async mix(callers: number, mix: Mix, events: number): Promise<RawRun> {
    await this.#fill(Math.ceil(mix.perEvent.ReceiveMessages * events * mix.messagesPerReceive));
    return runMix(this.#some(callers), mix, events);
  }

  /** Each of `operations` in turn, `times` by each caller. */
  async operations(callers: number, operations: readonly Operation[], times: number, sizes: Sizes): Promise<RawRun> {
    if (operations.includes("ReceiveMessages")) await this.#fill(callers * times);
    return runOperations(this.#some(callers), operations, times, { ...sizes, messagesPerReceive: 1 });
  }

  #some(count: number): readonly RawCaller[] {
    while (this.#callers.length < count) this.#callers.push(roomCaller(this.#room, `raw-${this.#callers.length}`));
    return this.#callers.slice(0, count);
  }

  /** Messages to receive. */
  async #fill(messages: number): Promise<void> {
    await inLanes(Array.from({ length: messages }), FILLERS, async () => void (await this.#room.inbox.wakeUps.send('"bench"', 0)));
  }
}
