/** Sends notifications through a gateway that takes them by HTTP (of a mail or text message provider). */
import { describeError, OutboxError } from "../core/errors.ts";
import { PermanentError, RetryableError } from "../core/retry.ts";
import { retryAfterMs } from "../webhook/retry-after.ts";
import type { SendNotification } from "./notifier.ts";

/**
 * Of the 4xx, those that say nothing against the notification: a token that is to be renewed (401, 403), request timeout, too early, too many
 * requests.
 */
const RETRYABLE: ReadonlySet<number> = new Set([401, 403, 408, 425, 429]);

/**
 * @param settings `url`: https, or http on this machine. `token`: sent as a bearer token; empty or missing: none is.
 * @throws `invalid-option` for another URL
 */
export function httpGateway({ url, token }: { readonly url: string; readonly token?: string | undefined }): SendNotification {
  const parsed = URL.parse(url);
  const isLocal = parsed?.hostname === "localhost" || parsed?.hostname === "127.0.0.1";
  if (parsed === null || (parsed.protocol !== "https:" && !(parsed.protocol === "http:" && isLocal))) {
    throw new OutboxError("invalid-option", "SHIPMENT_NOTIFY_URL is no https URL");
  }
  return async (notification, signal) => {
    const answer = await fetch(parsed, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "idempotency-key": notification.id,
        ...(token === undefined || token === "" ? {} : { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify(notification),
      redirect: "manual",
      signal,
    }).catch((cause: unknown) => {
      signal.throwIfAborted();
      // What went wrong is the cause's; "fetch failed" says nothing.
      const why = describeError(cause instanceof Error && cause.cause !== undefined ? cause.cause : cause);
      throw new RetryableError(`the notification gateway did not answer: ${why}`, 0, { cause });
    });
    await answer.body?.cancel();
    if (answer.ok) return;
    const { status } = answer;
    const text = `the notification gateway answered ${status}`;
    if (status >= 400 && status < 500 && !RETRYABLE.has(status)) throw new PermanentError(text);
    const redirected = status < 400 ? " (redirects are not followed)" : "";
    throw new RetryableError(`${text}${redirected}`, retryAfterMs(answer.headers.get("retry-after") ?? undefined, Date.now()));
  };
}
