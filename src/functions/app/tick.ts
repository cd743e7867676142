/** The frame of all timers: bounded work that the next tick goes on with (C42). */
import type { InvocationContext, TimerHandler } from "@azure/functions";
import { isOutboxError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import { application, type Application } from "./application.ts";
import { TICK_BUDGET_MS } from "./function-timeout.ts";
import { inInvocation, invocationLogger } from "./invocation-logger.ts";
import { aborting, tracked } from "./running.ts";

/** @param work what it throws fails the invocation, which the host shows and does not repeat; the next tick does */
export function onTick(work: (app: Application, options: { readonly signal: AbortSignal }, logger: Logger) => Promise<void>): TimerHandler {
  return (_timer, context: InvocationContext) =>
    inInvocation(context, () =>
      tracked(async () => {
        const timeIsOver = AbortSignal.timeout(TICK_BUDGET_MS);
        const signal = AbortSignal.any([aborting, timeIsOver]);
        try {
          await work(await application(), { signal }, invocationLogger);
        } catch (error) {
          if (!signal.aborted || !isOutboxError(error, "aborted")) throw error;
          const message = timeIsOver.aborted ? "a tick ran out of time; the next one goes on" : "a tick was ended because the app stops";
          invocationLogger.warn(message, { function: context.functionName, budgetMs: TICK_BUDGET_MS });
        }
      }),
    );
}
