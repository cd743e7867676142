/**
 * Runs processes that share an account one action at a time. Everything a process waits for is an action: a call arrives at the account, its
 * answer arrives at the process, a timer fires, a handler ends. Which action is next is somebody else's choice, and nothing happens meanwhile.
 *
 * Time stands still while there is something to choose from that the chooser wants; it is turned by {@link Scheduler.pass} alone.
 */
import type { Clock } from "../../../src/core/clock.ts";
import { OutboxError } from "../../../src/core/errors.ts";
import type { CallOptions, Storage } from "../../../src/core/ports.ts";
import { withBundles } from "../../../src/storage/bundled-archive.ts";
import type { MemoryStorage } from "../../support/memory-storage.ts";

/** One life of a process. */
export interface Process {
  readonly name: string;
  alive: boolean;
  /** Gets neither answers nor timers; what it has sent arrives. */
  frozen: boolean;
}

interface Action {
  readonly process: Process;
  /** `arrival`: a request at the account. It happens whatever became of its process. */
  readonly kind: "arrival" | "answer" | "timer" | "handler";
  readonly what: string;
  readonly run: () => void;
  readonly forget?: () => void;
}

/** A request whose process still waits for the answer. */
interface OpenCall {
  readonly process: Process;
  readonly what: string;
  readonly method: string;
  readonly fail: (error: OutboxError) => void;
  /** Sends the same request once more; nobody waits for its answer. */
  readonly repeat: () => void;
  /** The request is not on its way any more. */
  readonly drop: () => void;
  readonly forget: () => void;
}

interface Sleeper {
  readonly process: Process;
  readonly dueAt: number;
  readonly wake: () => void;
  readonly forget: () => void;
}

type Arrived = { readonly value: unknown } | { readonly error: unknown };

/** Told of each request that was carried out. */
export type OnArrival = (process: Process, port: keyof Storage, method: string, args: readonly unknown[]) => void;

export class Scheduler {
  readonly trace: string[] = [];
  #monotonic = 0;
  #taken = 0;
  readonly #startedAt = Date.UTC(2026, 0, 1);
  readonly #actions = new Set<Action>();
  readonly #open = new Set<OpenCall>();
  readonly #sleepers = new Set<Sleeper>();

  /** The clock of the account: true time. */
  readonly clock: Clock = this.#clockOf({ name: "account", alive: true, frozen: false });

  process(name: string): Process {
    return { name, alive: true, frozen: false };
  }

  clockOf(process: Process): Clock {
    return this.#clockOf(process);
  }

  /** `storage` as the process sees it: each request to the account is an action, also those that a bundle of the archive takes. */
  storageOf(process: Process, storage: MemoryStorage, onArrival: OnArrival): Storage {
    const ports: Storage = { ...storage, blobs: storage.ownBlobs };
    const wrap = <Port extends keyof Storage>(port: Port): Storage[Port] =>
      new Proxy(ports[port], {
        get: (target, method: string) => {
          const real = Reflect.get(target, method) as (...args: readonly unknown[]) => unknown;
          if (method === "check") return real.bind(target);
          const request = (args: readonly unknown[]): Promise<unknown> => {
            const signal = args.find(isCallOptions)?.signal;
            const sent = args.filter((arg) => !isCallOptions(arg));
            const perform = async (): Promise<unknown> => {
              const result =
                method === "list"
                  ? await Array.fromAsync(real.apply(target, [...sent]) as AsyncIterable<unknown>)
                  : await real.apply(target, [...sent]);
              onArrival(process, port, method, sent);
              return result;
            };
            return this.#request(process, `${port}.${method}${describe(sent)}`, method, perform, signal);
          };
          if (method !== "list") return (...args: readonly unknown[]) => request(args);
          return async function* (...args: readonly unknown[]) {
            yield* (await request(args)) as readonly unknown[];
          };
        },
      });
    return { orders: wrap("orders"), wakeUps: wrap("wakeUps"), leases: wrap("leases"), blobs: withBundles(wrap("blobs")) };
  }

  /** A handler runs until the chooser ends it; `end` may throw. */
  handler(process: Process, what: string, end: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#add({
        process,
        kind: "handler",
        what: `${what} ends`,
        run: () => {
          try {
            end();
            resolve();
          } catch (error) {
            reject(error);
          }
        },
      });
    });
  }

  /** How many actions there are to choose from. */
  get choices(): number {
    return this.#enabled().length;
  }

  /** Runs the action at `choice`, counted around; 0 is the oldest one. */
  async step(choice: number): Promise<void> {
    const enabled = this.#enabled();
    const action = enabled[choice % enabled.length]!;
    this.#actions.delete(action);
    this.trace.push(`${action.process.name}: ${action.what}`);
    this.#taken += 1;
    action.run();
    await idle();
  }

  /** How many actions were taken. */
  get actions(): number {
    return this.#taken;
  }

  /** The process dies; what it has sent is on its way all the same. */
  kill(process: Process): void {
    this.trace.push(`${process.name} dies`);
    process.alive = false;
    this.#forget((each) => each === process);
    for (const action of this.#actions) if (action.process === process && action.kind !== "arrival") this.#actions.delete(action);
  }

  /** Ends everything; nothing of it is waited for. */
  close(): void {
    this.#forget(() => true);
    this.#actions.clear();
  }

  /** The call at `choice` gets no answer, and happens or has happened all the same. */
  async loseAnswer(choice: number): Promise<void> {
    const call = this.#openCall(choice);
    if (call === undefined) return;
    this.trace.push(`${call.process.name}: ${call.what} times out`);
    call.fail(new OutboxError("timeout", "no answer"));
    await idle();
  }

  /** The call at `choice` is refused, if it has not arrived yet. */
  async refuse(choice: number): Promise<void> {
    const call = this.#openCall(choice);
    if (call === undefined) return;
    this.trace.push(`${call.process.name}: ${call.what} is refused`);
    call.drop();
    call.fail(new OutboxError("unavailable", "busy", { details: { status: 503 } }));
    await idle();
  }

  /** The client of the call at `choice` sends its request twice. */
  repeat(choice: number): void {
    // Renewals are not repeated by the client (W5), and a reading once more changes nothing.
    const calls = [...this.#open].filter(({ method }) => !/^(?:renew|read|list|scan|isHeldBy)/.test(method));
    const call = calls[choice % Math.max(1, calls.length)];
    if (call === undefined) return;
    this.trace.push(`${call.process.name}: ${call.what} is sent twice`);
    call.repeat();
  }

  /** Turns time by `ms`, or until the next timer. False if there is none. */
  pass(ms?: number): boolean {
    const next = Math.min(...[...this.#sleepers].map(({ dueAt }) => dueAt));
    if (ms === undefined && !Number.isFinite(next)) return false;
    this.#monotonic = ms === undefined ? Math.max(this.#monotonic, next) : this.#monotonic + ms;
    this.trace.push(`it is ${this.#monotonic / 1000} s`);
    const due = [...this.#sleepers].filter(({ dueAt }) => dueAt <= this.#monotonic).sort((a, b) => a.dueAt - b.dueAt);
    for (const sleeper of due) {
      this.#sleepers.delete(sleeper);
      this.#add({ process: sleeper.process, kind: "timer", what: "a timer fires", run: sleeper.wake, forget: sleeper.forget });
    }
    return true;
  }

  get seconds(): number {
    return this.#monotonic / 1000;
  }

  /** A signal with a listener would keep all that hangs on it in memory. */
  #forget(isMeant: (process: Process) => boolean): void {
    for (const waiting of [this.#sleepers, this.#open, this.#actions] as const) {
      for (const each of waiting) if (isMeant(each.process)) each.forget?.();
    }
  }

  #enabled(): readonly Action[] {
    return [...this.#actions].filter(({ kind, process }) => kind === "arrival" || (process.alive && !process.frozen));
  }

  #openCall(choice: number): OpenCall | undefined {
    const calls = [...this.#open].filter(({ process }) => !process.frozen);
    return calls[choice % Math.max(1, calls.length)];
  }

  #add(action: Action): void {
    this.#actions.add(action);
  }

  #request(
    process: Process,
    what: string,
    method: string,
    perform: () => Promise<unknown>,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    if (!process.alive) return new Promise(() => undefined);
    return new Promise((resolve, reject) => {
      let answer: Action | undefined;
      const settle = (): void => {
        signal?.removeEventListener("abort", onAbort);
        this.#open.delete(call);
        if (answer !== undefined) this.#actions.delete(answer);
      };
      const fail = (error: OutboxError): void => {
        settle();
        if (process.alive) reject(error);
      };
      const onAbort = (): void => fail(new OutboxError("aborted", "the caller gave up", { cause: signal?.reason }));
      const onArrived = (arrived: Arrived): void => {
        if (!this.#open.has(call)) return;
        const run = (): void => {
          settle();
          if ("error" in arrived) reject(arrived.error);
          else resolve(arrived.value);
        };
        answer = { process, kind: "answer", what: `${what} answers${"error" in arrived ? ` ${codeOf(arrived.error)}` : ""}`, run };
        this.#add(answer);
      };
      const arrival = (then: (arrived: Arrived) => void): Action => ({
        process,
        kind: "arrival",
        what,
        run: () =>
          void perform().then(
            (value) => then({ value }),
            (error: unknown) => then({ error }),
          ),
      });
      const first = arrival(onArrived);
      const call: OpenCall = {
        process,
        what,
        method,
        fail,
        repeat: () => this.#add(arrival(() => undefined)),
        drop: () => this.#actions.delete(first),
        forget: settle,
      };
      if (signal?.aborted === true) return onAbort();
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#open.add(call);
      this.#add(first);
    });
  }

  #clockOf(process: Process): Clock {
    return {
      now: () => this.#startedAt + this.#monotonic,
      monotonic: () => this.#monotonic,
      sleep: (ms, signal) =>
        new Promise((resolve, reject) => {
          if (signal?.aborted === true) return reject(signal.reason as Error);
          if (!process.alive) return;
          const onAbort = (): void => {
            this.#sleepers.delete(sleeper);
            if (process.alive) reject(signal?.reason as Error);
          };
          const sleeper: Sleeper = {
            process,
            forget: () => {
              signal?.removeEventListener("abort", onAbort);
              this.#sleepers.delete(sleeper);
            },
            dueAt: this.#monotonic + Math.max(0, ms),
            wake: () => {
              signal?.removeEventListener("abort", onAbort);
              resolve();
            },
          };
          signal?.addEventListener("abort", onAbort, { once: true });
          this.#sleepers.add(sleeper);
        }),
    };
  }
}

/** Lets everything run that waits for nothing but promises. */
export function idle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function isCallOptions(arg: unknown): arg is CallOptions {
  return typeof arg === "object" && arg !== null && "signal" in arg && (arg.signal === undefined || arg.signal instanceof AbortSignal);
}

function codeOf(error: unknown): string {
  return error instanceof OutboxError ? error.code : String(error);
}

/** The names among the arguments. */
function describe(args: readonly unknown[]): string {
  const names = args.filter((arg) => typeof arg === "string" || typeof arg === "number").slice(0, 2);
  return names.length === 0 ? "" : ` ${names.join(" ")}`;
}
