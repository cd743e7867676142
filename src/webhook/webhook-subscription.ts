import { lookup } from "node:dns";
import type { LookupFunction } from "node:net";
import type { Clock } from "../core/clock.ts";
import { OutboxError } from "../core/errors.ts";
import { EVENT_CONTENT_TYPE, eventBytes } from "../core/event.ts";
import type { RetryOptions } from "../core/retry.ts";
import { defineSubscription, type AnyWorkflow, type EventTypeOf, type StoredEventOf, type Subscription } from "../core/workflow.ts";
import { systemClock } from "../system/clock.ts";
import { judgeAnswer } from "./answer.ts";
import { Connections } from "./connections.ts";
import { post } from "./post.ts";
import { createRedactor } from "./redact.ts";
import { signatures, webhookTimestamp } from "./secrets.ts";
import { traceHeaders } from "./trace-headers.ts";
import { resolveWebhookOptions, type OptionName, type WebhookOptions } from "./webhook-options.ts";

export interface WebhookDefinition<W extends AnyWorkflow, Type extends EventTypeOf<W> = EventTypeOf<W>> extends WebhookOptions {
  /** Of the subscription: lower-case letters, digits, dashes. */
  readonly name: string;
  /** The types it sends; default all. */
  readonly events?: readonly Type[];
  /** An additional predicate, asked only about those types. */
  readonly when?: (event: StoredEventOf<W, Type>) => boolean;
  /** As for `defineSubscription`; `timeoutMs` is by default at least 5,000 longer than the webhook's. */
  readonly retry?: RetryOptions;
  /** The same for single types, on top of `retry`. */
  readonly retryByType?: { readonly [T in NoInfer<Type>]?: RetryOptions };
  /** As for `defineSubscription`. */
  readonly concurrency?: number;
}

/** A subscription with connections of its own. Idle ones hold no process open; `close` ends all, and calls that still run fail. */
export interface WebhookSubscription extends Subscription, AsyncDisposable {
  close(): Promise<void>;
}

/** What the world around is, for tests: time, names, certificates, and how short a deadline may be. */
export interface WebhookSurroundings {
  readonly clock: Clock;
  readonly lookup: LookupFunction;
  readonly ca?: string;
  readonly minTimeoutMs?: number;
}

const SYSTEM: WebhookSurroundings = { clock: systemClock, lookup };

const DEFAULT_HANDLER_TIMEOUT_MS = 60_000;
/** What a handler needs besides its request; without it, an attempt would end by the worker's clock and not say where it was stuck. */
const HANDLER_MARGIN_MS = 5_000;

/** {@link import("./define-webhook.ts").defineWebhook} in given surroundings. `name` says how options are called in messages. */
export function webhookSubscription<W extends AnyWorkflow, Type extends EventTypeOf<W>>(
  workflow: W,
  definition: WebhookDefinition<W, Type>,
  optionName: OptionName = (option) => `webhook ${definition.name}: ${option}`,
  { clock, lookup: resolve, ca, minTimeoutMs }: WebhookSurroundings = SYSTEM,
): WebhookSubscription {
  const { url, signers, timeoutMs, maxResponseBytes, allowPrivateAddresses, clientErrors, headers } = resolveWebhookOptions(
    definition,
    optionName,
    minTimeoutMs,
  );
  const { name, events, when, retry, retryByType, concurrency } = definition;
  const redact = createRedactor(url, headers);
  const connections = new Connections(url.origin, {
    allowPrivateAddresses,
    optIn: optionName("allowPrivateAddresses"),
    lookup: resolve,
    ca,
  });
  const subscription = defineSubscription<W, Type>(workflow, {
    name,
    ...(events === undefined ? {} : { events }),
    ...(when === undefined ? {} : { when }),
    ...(retryByType === undefined ? {} : { retryByType }),
    ...(concurrency === undefined ? {} : { concurrency }),
    retry: { timeoutMs: Math.max(DEFAULT_HANDLER_TIMEOUT_MS, timeoutMs + HANDLER_MARGIN_MS), ...retry },
    async handle({ id, text, traceparent, tracestate }, { signal }) {
      const answer = await post({
        connections,
        url,
        body: eventBytes(text),
        headers: {
          ...headers,
          ...traceHeaders({ traceparent, tracestate }),
          "content-type": EVENT_CONTENT_TYPE,
          "accept-encoding": "identity",
          ...attemptHeaders(id, text),
        },
        timeoutMs,
        maxResponseBytes,
        clock,
        signal,
      });
      judgeAnswer(answer, { origin: url.origin, clientErrors, nowMs: clock.now(), redact });
    },
  });
  for (const policy of [subscription.retry, ...Object.values(subscription.retryByType)]) {
    if (policy.timeoutMs <= timeoutMs) {
      throw new OutboxError(
        "invalid-option",
        `webhook ${name}: retry.timeoutMs is ${policy.timeoutMs}: more than the ${timeoutMs} of timeoutMs is allowed`,
      );
    }
  }
  const close = (): Promise<void> => connections.close();
  return { ...subscription, close, [Symbol.asyncDispose]: close };

  /** C19: the id is the event's, time and signatures are the attempt's: receivers refuse old ones. */
  function attemptHeaders(id: string, text: string): Readonly<Record<string, string>> {
    const nowMs = clock.now();
    return { "webhook-id": id, "webhook-timestamp": webhookTimestamp(nowMs), "webhook-signature": signatures(signers, id, nowMs, text) };
  }
}
