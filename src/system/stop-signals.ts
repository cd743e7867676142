/** SIGTERM and SIGINT as two stages: the first asks for a graceful stop, the second for an end at once. */
export interface StopSignals extends Disposable {
  /** Aborts at the first signal; the reason is its name. */
  readonly stop: AbortSignal;
  /** Aborts at the second signal; the reason is its name. */
  readonly abort: AbortSignal;
}

/** From here until disposed the signals don't end the process. Call it first: as process 1 of a container there is no default action. */
export function watchStopSignals(): StopSignals {
  const stop = new AbortController();
  const abort = new AbortController();
  const onSignal = (name: NodeJS.Signals): void => (stop.signal.aborted ? abort : stop).abort(name);
  process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  return {
    stop: stop.signal,
    abort: abort.signal,
    [Symbol.dispose]: () => void process.off("SIGTERM", onSignal).off("SIGINT", onSignal),
  };
}

/** Resolves when the signal aborts, at once if it has already. */
export async function aborted(signal: AbortSignal): Promise<undefined> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
