/** A circuit breaker for each subscription (F8): while its endpoint is down, orders wait without each burning its attempts. */
import { BrokenCircuitError, circuitBreaker, CircuitState, ConsecutiveBreaker, handleWhen, type CircuitBreakerPolicy } from "cockatiel";
import { isAnswer } from "../core/retry.ts";

export interface BreakerOptions {
  /** It opens after this many failures in a row, of different orders: one poison order must not hold up the others (G4). */
  readonly failures: number;
  /** How long it stays open before one call tries again, in ms. */
  readonly openMs: number;
}

interface Breaker {
  readonly policy: CircuitBreakerPolicy;
  /** Orders that have failed since the last success. Fewer than it takes to open. */
  readonly failed: Set<string>;
}

/** An order that has failed before tells nothing new by failing again. */
class FailedAgain extends Error {}

export class Breakers {
  readonly #options: BreakerOptions | undefined;
  readonly #breakers = new Map<string, Breaker>();

  /** @param options undefined: never open */
  constructor(options: BreakerOptions | undefined) {
    this.#options = options;
  }

  /**
   * Runs `call` unless the breaker of the subscription is open. Throws what it throws.
   *
   * @param interrupted true if the call ended for a reason of ours (a lost lease, a stop): that says nothing about the endpoint
   * @returns `open` if it was not run
   */
  async run<Result>(
    subscription: string,
    orderId: string,
    call: () => Promise<Result>,
    interrupted: () => boolean,
  ): Promise<{ readonly result: Result } | "open"> {
    const breaker = this.#breaker(subscription);
    if (breaker === undefined) return { result: await call() };
    const { policy, failed } = breaker;
    // Another order is the trial. To wait for it would keep this one's lease and a place in the host as long as its handler likes (G4).
    if (policy.state === CircuitState.HalfOpen) return "open";
    const failedBefore = policy.state === CircuitState.Closed && failed.has(orderId);
    let ended: { readonly result: Result } | { readonly error: unknown } | undefined;
    try {
      await policy.execute(async () => {
        try {
          ended = { result: await call() };
        } catch (error) {
          ended = { error };
          // After an answer the endpoint is not down. One that was interrupted was not let answer.
          if (!interrupted() && !isAnswer(error)) throw failedBefore ? new FailedAgain() : error;
        }
      });
      failed.clear();
    } catch (error) {
      if (ended === undefined && error instanceof BrokenCircuitError) return "open";
      if (policy.state === CircuitState.Closed) failed.add(orderId);
      else failed.clear();
    }
    if (ended === undefined || "error" in ended) throw ended?.error;
    return ended;
  }

  /** How long a head that met an open breaker waits, in ms. */
  get waitMs(): number {
    return this.#options?.openMs ?? 0;
  }

  #breaker(subscription: string): Breaker | undefined {
    if (this.#options === undefined) return undefined;
    let breaker = this.#breakers.get(subscription);
    if (breaker === undefined) {
      const { failures, openMs } = this.#options;
      breaker = {
        policy: circuitBreaker(
          handleWhen((error) => !(error instanceof FailedAgain)),
          { halfOpenAfter: openMs, breaker: new ConsecutiveBreaker(failures) },
        ),
        failed: new Set(),
      };
      this.#breakers.set(subscription, breaker);
    }
    return breaker;
  }
}
