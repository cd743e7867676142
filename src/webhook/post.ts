/** One attempt: a request and its answer, under one deadline. */
import type { Dispatcher } from "undici";
import type { Clock } from "../core/clock.ts";
import { describeError, printable } from "../core/errors.ts";
import { PermanentError, RetryableError } from "../core/retry.ts";
import type { Answer } from "./answer.ts";
import type { Connections } from "./connections.ts";
import { RefusedAddressError } from "./guarded-connector.ts";

export interface Call {
  readonly connections: Connections;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** For everything: waiting for a connection, lookup, connect, TLS, sending, headers, body. */
  readonly timeoutMs: number;
  readonly maxResponseBytes: number;
  readonly clock: Clock;
  /** The worker's: the lease is lost, or it stops. */
  readonly signal: AbortSignal;
}

/** The status has decided by then; the rest of the body is only worth this wait, for an excerpt and for keeping the connection. */
const BODY_WAIT_MS = 1_000;

/**
 * Posts once. Returns with the status and the beginning of the body, whatever comes of its rest.
 *
 * @throws PermanentError for a refused address, RetryableError if no answer could be had, the reason of `signal`
 */
export async function post(call: Call): Promise<Answer> {
  const { connections, url, headers, body, timeoutMs, clock } = call;
  call.signal.throwIfAborted();
  const connection = connections.take();
  const ended = new AbortController();
  const over = new AbortController();
  const endAfter = (ms: number): void =>
    void clock.sleep(ms, ended.signal).then(
      () => over.abort(),
      () => undefined,
    );
  endAfter(timeoutMs);
  const signal = AbortSignal.any([call.signal, over.signal]);
  // By ending its connection, not by undici's signal: that one waits until the connection is made.
  const end = (): void => void connection.end();
  signal.addEventListener("abort", end, { once: true });
  let orderly = false;
  try {
    const response = await connection.client.request({ method: "POST", path: `${url.pathname}${url.search}`, headers, body });
    endAfter(BODY_WAIT_MS);
    const { bytes, complete } = await readStart(response.body, call.maxResponseBytes);
    orderly = complete;
    return {
      status: response.statusCode,
      retryAfter: single(response.headers["retry-after"]),
      encoding: single(response.headers["content-encoding"]),
      bytes,
    };
  } catch (error) {
    call.signal.throwIfAborted();
    throw failureOf(error, url.origin, over.signal.aborted ? timeoutMs : undefined);
  } finally {
    ended.abort();
    signal.removeEventListener("abort", end);
    if (orderly) connections.keep(connection);
    else await connection.end();
  }
}

/** What has come of at most `maxBytes` bytes; more is cancelled, and a body that breaks off ends where it does. */
async function readStart(
  body: Dispatcher.ResponseData["body"],
  maxBytes: number,
): Promise<{ readonly bytes: Uint8Array; readonly complete: boolean }> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  let complete = false;
  // The cancelling itself arrives here, after the loop was left.
  body.on("error", () => {});
  try {
    for await (const chunk of body as AsyncIterable<Uint8Array>) {
      chunks.push(chunk.subarray(0, maxBytes - length));
      length += chunk.length;
      if (length > maxBytes) break;
    }
    complete = length <= maxBytes;
  } catch {
    // Reset, cut short or out of time: the status has been given.
  }
  return { bytes: Buffer.concat(chunks), complete };
}

function failureOf(error: unknown, origin: string, timeoutMs: number | undefined): Error {
  if (error instanceof RefusedAddressError) return new PermanentError(`nothing was sent to ${origin}: ${printable(error.message)}`);
  if (timeoutMs !== undefined) return new RetryableError(`${origin} has not answered within ${timeoutMs} ms`);
  const code = (error as NodeJS.ErrnoException).code;
  const what = typeof code === "string" ? ` (${code})` : "";
  return new RetryableError(`no answer from ${origin}${what}: ${printable(describeError(error))}`, 0, {
    cause: error,
  });
}

function single(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
