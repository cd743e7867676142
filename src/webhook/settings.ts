/** Webhooks that are configured and not programmed: one group of settings for each. */
import { OutboxError, printable } from "../core/errors.ts";
import { MAX_SUBSCRIPTION_NAME_LENGTH } from "../core/names.ts";
import { wholeNumber } from "../core/options.ts";
import type { DeadLetterPolicy } from "../core/retry.ts";
import { CONCURRENCY, type AnyWorkflow, type EventTypeOf } from "../core/workflow.ts";
import type { ClientErrorPolicy } from "./answer.ts";
import type { OptionName } from "./webhook-options.ts";
import { webhookSubscription, type WebhookDefinition, type WebhookSubscription } from "./webhook-subscription.ts";

const PREFIX = "ORDERED_OUTBOX_WEBHOOK_";

/** None is the end of another, so a setting has one reading at most. */
const SUFFIXES = [
  "_URL",
  "_SECRET",
  "_SECRET_OLD",
  "_EVENTS",
  "_TIMEOUT_MS",
  "_CLIENT_ERRORS",
  "_CONCURRENCY",
  "_ON_DEAD",
  "_MAX_RESPONSE_BYTES",
  "_ALLOW_PRIVATE_ADDRESSES",
  "_ALLOW_HTTP",
] as const;
type Suffix = (typeof SUFFIXES)[number];
type Group = Partial<Record<Suffix, string>>;

/** Where the value of an option was written. */
const SUFFIX_OF: Partial<Record<Parameters<OptionName>[0], Suffix>> = {
  url: "_URL",
  secret: "_SECRET",
  "secrets[0]": "_SECRET",
  "secrets[1]": "_SECRET_OLD",
  timeoutMs: "_TIMEOUT_MS",
  clientErrors: "_CLIENT_ERRORS",
  maxResponseBytes: "_MAX_RESPONSE_BYTES",
  allowPrivateAddresses: "_ALLOW_PRIVATE_ADDRESSES",
  allowHttp: "_ALLOW_HTTP",
};

/**
 * The webhooks that the settings describe, in the order of their names; none is fine. For a webhook `shop-mail`, with what is needed first:
 * `ORDERED_OUTBOX_WEBHOOK_SHOP_MAIL_URL`, `…_SECRET`, and optionally `…_SECRET_OLD` (rotation: both sign), `…_EVENTS` (types, with commas),
 * `…_TIMEOUT_MS`, `…_CLIENT_ERRORS` (`dead`, `retry`), `…_CONCURRENCY`, `…_ON_DEAD` (`block`, `skip`), `…_MAX_RESPONSE_BYTES`,
 * `…_ALLOW_PRIVATE_ADDRESSES` and `…_ALLOW_HTTP` (`true`, `false`). They mean what they mean in `defineWebhook`. An empty setting counts as missing.
 *
 * @param settings usually `process.env`
 * @throws `invalid-option` for an unknown setting with the prefix, a missing or a bad one; the message names it and never holds a secret
 */
export function webhooksFromSettings<W extends AnyWorkflow>(
  workflow: W,
  settings: Readonly<Record<string, string | undefined>>,
): WebhookSubscription[] {
  return [...groups(settings)]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([stem, group]) =>
      webhookSubscription(workflow, definitionOf(workflow, stem, group), (option) => `setting ${PREFIX}${stem}${SUFFIX_OF[option] ?? ""}`),
    );
}

function groups(settings: Readonly<Record<string, string | undefined>>): Map<string, Group> {
  const found = new Map<string, Group>();
  for (const [key, value] of Object.entries(settings)) {
    // Deployments leave empty ones behind.
    if (value === undefined || value === "" || !key.startsWith(PREFIX)) continue;
    const suffix = SUFFIXES.find((candidate) => key.endsWith(candidate));
    const stem = key.slice(PREFIX.length, key.length - (suffix?.length ?? 0));
    if (suffix === undefined || !/^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*$/.test(stem) || stem.length > MAX_SUBSCRIPTION_NAME_LENGTH) {
      throw new OutboxError(
        "invalid-option",
        `setting ${printable(key, 120)} is unknown: ${PREFIX}<NAME> with one of ${SUFFIXES.join(", ")} is allowed, ` +
          `<NAME> of capital letters, digits and single underscores, at most ${MAX_SUBSCRIPTION_NAME_LENGTH} characters`,
      );
    }
    found.set(stem, { ...found.get(stem), [suffix]: value });
  }
  return found;
}

function definitionOf<W extends AnyWorkflow>(workflow: W, stem: string, group: Group): WebhookDefinition<W> {
  const { _SECRET_OLD: old } = group;
  const secret = needed("_SECRET");
  const optional = <Key extends string, Value>(key: Key, suffix: Suffix, read: (text: string, setting: string) => Value) => {
    const text = group[suffix];
    return (text === undefined ? {} : { [key]: read(text, `setting ${PREFIX}${stem}${suffix}`) }) as { readonly [K in Key]?: Value };
  };
  return {
    name: stem.toLowerCase().replaceAll("_", "-"),
    url: needed("_URL"),
    ...(old === undefined ? { secret } : { secrets: [secret, old] }),
    ...optional("events", "_EVENTS", (text, setting) => eventsOf(workflow, setting, text)),
    ...optional("concurrency", "_CONCURRENCY", (text, setting) => wholeNumber(setting, numberOf(text), CONCURRENCY)),
    ...optional("retry", "_ON_DEAD", (text, setting) => ({ onDead: onDeadOf(text, setting) })),
    ...optional("timeoutMs", "_TIMEOUT_MS", numberOf),
    ...optional("maxResponseBytes", "_MAX_RESPONSE_BYTES", numberOf),
    ...optional("clientErrors", "_CLIENT_ERRORS", (text) => text as ClientErrorPolicy),
    ...optional("allowPrivateAddresses", "_ALLOW_PRIVATE_ADDRESSES", flagOf),
    ...optional("allowHttp", "_ALLOW_HTTP", flagOf),
  };

  function needed(suffix: Suffix): string {
    const value = group[suffix];
    if (value === undefined) throw new OutboxError("invalid-option", `setting ${PREFIX}${stem}${suffix} is missing`);
    return value;
  }
}

function eventsOf<W extends AnyWorkflow>(workflow: W, setting: string, text: string): EventTypeOf<W>[] {
  const types = text.split(",").map((type) => type.trim());
  for (const type of types) {
    if (Object.hasOwn(workflow.events, type)) continue;
    const known = Object.keys(workflow.events).join(", ");
    throw new OutboxError(
      "invalid-option",
      `${setting} holds ${printable(JSON.stringify(type), 60)}, which workflow ${workflow.name} does not declare: ${known} are allowed, with commas between`,
    );
  }
  return types;
}

function onDeadOf(text: string, setting: string): DeadLetterPolicy {
  if (text === "block" || text === "skip") return text;
  throw new OutboxError("invalid-option", `${setting} is ${printable(JSON.stringify(text), 60)}: block or skip is allowed (default block)`);
}

/** What is no number goes on as it is, and is refused together with the bounds. */
function numberOf(text: string): number {
  return /^\d{1,15}$/.test(text) ? Number(text) : (text as unknown as number);
}

function flagOf(text: string): boolean {
  return text === "true" || (text === "false" ? false : (text as unknown as boolean));
}
