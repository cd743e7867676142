import { Webhook } from "standardwebhooks";
import { OutboxError } from "../core/errors.ts";

const PREFIX = "whsec_";
const MIN_KEY_BYTES = 24;
const MAX_KEY_BYTES = 64;

/**
 * The signer of a Standard Webhooks secret.
 *
 * @param name of the setting, for the message; the secret itself is never repeated
 * @throws `invalid-option`
 */
export function signerOf(name: string, secret: unknown): Webhook {
  const base64 = typeof secret === "string" && secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : "";
  const key = Buffer.from(base64, "base64");
  // Compared with its canonical form: Buffer skips over whatever is no base64.
  if (key.length < MIN_KEY_BYTES || key.length > MAX_KEY_BYTES || key.toString("base64") !== base64) {
    throw new OutboxError(
      "invalid-option",
      `${name} is no secret of Standard Webhooks: "${PREFIX}" and the base64 text of ${MIN_KEY_BYTES} to ${MAX_KEY_BYTES} random bytes is allowed`,
    );
  }
  return new Webhook(base64);
}

/** The value of `webhook-signature`: one signature for each secret, so that a receiver may know either of them. */
export function signatures(signers: readonly Webhook[], id: string, nowMs: number, text: string): string {
  return signers.map((signer) => signer.sign(id, new Date(nowMs), text)).join(" ");
}

export function webhookTimestamp(nowMs: number): string {
  return String(Math.floor(nowMs / 1_000));
}
