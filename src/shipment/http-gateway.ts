/** Sends notifications through a gateway that takes them by HTTP (of a mail or text message provider). */
import { OutboxError } from "../core/errors.ts";
import { PermanentError, RetryableError } from "../core/retry.ts";
import type { SendNotification } from "./notifier.ts";

/**
 * @param settings `url`: https, or http on this machine. `token`: sent as a bearer token.
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
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify(notification),
      redirect: "manual",
      signal,
    });
    await answer.body?.cancel();
    if (answer.ok) return;
    const text = `the notification gateway answered ${answer.status}`;
    if (answer.status === 429 || answer.status >= 500) throw new RetryableError(text);
    throw new PermanentError(text);
  };
}
