/** The contract between producers and subscriptions: what an order looks like and which events it can have. */
import { OutboxError } from "./errors.ts";
import { assertSubscriptionName } from "./names.ts";
import { wholeNumber } from "./options.ts";
import { resolveRetryPolicy, type RetryOptions, type RetryPolicy } from "./retry.ts";
import type { InputOf, OutputOf, Schema } from "./schema.ts";
import type { StoredEvent } from "./event.ts";
import { MAX_SUBSCRIPTIONS } from "./progress.ts";

export type EventSchemas = Readonly<Record<string, Schema>>;

export interface Workflow<State extends Schema = Schema, Events extends EventSchemas = EventSchemas> {
  readonly name: string;
  /** CloudEvents source of its events. */
  readonly source: string;
  readonly state: State;
  readonly events: Events;
}

export type AnyWorkflow = Workflow;

export const MAX_EVENT_TYPE_LENGTH = 200;
export const MAX_CONCURRENCY = 1_000;
export const CONCURRENCY: { readonly default: number; readonly min: number; readonly max: number; readonly defaultText: string } = {
  default: MAX_CONCURRENCY,
  min: 1,
  max: MAX_CONCURRENCY,
  defaultText: "what the host leaves to it",
};

/**
 * Declares a workflow once; producers and subscriptions take their types from it.
 *
 * @param definition `name`: lower-case letters, digits, dashes. `source`: CloudEvents source, default `/` + name. `state`: schema of the
 *   order's state. `events`: schema of the data of each event type. Schemas are zod or any other Standard Schema.
 * @throws `invalid-option` for names that can't be stored
 */
export function defineWorkflow<State extends Schema, const Events extends EventSchemas>(definition: {
  readonly name: string;
  readonly source?: string;
  readonly state: State;
  readonly events: Events;
}): Workflow<State, Events> {
  if (!/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(definition.name)) {
    throw new OutboxError(
      "invalid-option",
      `workflow name ${JSON.stringify(definition.name)}: lower-case letters, digits and single dashes`,
    );
  }
  for (const type of Object.keys(definition.events)) {
    if (!/^[\x21-\x7E]+$/.test(type) || type.length > MAX_EVENT_TYPE_LENGTH) {
      throw new OutboxError("invalid-option", `event type ${JSON.stringify(type)}: 1 to ${MAX_EVENT_TYPE_LENGTH} visible ASCII characters`);
    }
  }
  return { name: definition.name, source: definition.source ?? `/${definition.name}`, state: definition.state, events: definition.events };
}

/** The types of a workflow's events. */
export type EventTypeOf<W extends AnyWorkflow> = keyof W["events"] & string;

/** What a handler gets: the stored event and its data as the schema sees it. */
export type HandledEvent<W extends AnyWorkflow, Type extends EventTypeOf<W> = EventTypeOf<W>> = {
  [T in Type]: Omit<StoredEvent, "type"> & { readonly type: T; readonly data: OutputOf<W["events"][T]> };
}[Type];

/**
 * What a predicate gets: the stored event, its type one of those that the subscription wants. Its data is text (`dataText`): a predicate is
 * asked for every event of every order, and most of them need no more than the type. One that looks into the data parses what it needs.
 */
export type StoredEventOf<W extends AnyWorkflow, Type extends EventTypeOf<W> = EventTypeOf<W>> = {
  [T in Type]: Omit<StoredEvent, "type"> & { readonly type: T };
}[Type];

/** What a producer hands over: the data as the schema accepts it, or its JSON text. */
export type EventInput<W extends AnyWorkflow> = {
  [T in EventTypeOf<W>]: {
    readonly type: T;
    readonly data: InputOf<W["events"][T]> | import("./json.ts").RawJson;
    /** When it happened; default: now. Never used for ordering. */
    readonly time?: string | Date;
  };
}[EventTypeOf<W>];

export interface HandlerContext {
  readonly subscription: string;
  /** 1 for the first start of this event, as far as starts were counted. */
  readonly attempt: number;
  /** Aborts when the lease is lost or the worker stops: end soon, the event may be running elsewhere already. */
  readonly signal: AbortSignal;
}

/** What {@link defineSubscription} makes: the types of the workflow are checked there and erased here. */
export interface Subscription {
  readonly workflow: AnyWorkflow;
  /** Lower-case letters, digits, dashes; part of blob paths and progress, so it names the subscription for good. */
  readonly name: string;
  /** Does this subscription want the event? Decided once, when the event is relayed; if it throws, before the handler would run. */
  readonly wants: (event: StoredEvent) => boolean;
  /** How many of its handlers may run at once in a process; undefined: what the host leaves to it. */
  readonly concurrency?: number | undefined;
  /** Retries, timeout and dead letters, completed with the defaults. */
  readonly retry: RetryPolicy;
  /** The same for single event types. */
  readonly retryByType: Readonly<Record<string, RetryPolicy>>;
  /** Resolves when the event is done. What a throw means: `PermanentError` no retry, `RetryableError` not before its time, any other: retry. */
  readonly handle: (event: HandledEvent<AnyWorkflow>, context: HandlerContext) => Promise<void> | void;
}

/**
 * Declares a subscription of a workflow: an ordered stream of its own for every order.
 *
 * @param definition `events`: the types it wants, default all; the handler's argument is typed accordingly. `when`: an additional predicate,
 *   asked only about those types. `concurrency`: how many of its handlers may run at once in a process, 1 to 1,000; orders that find no room
 *   wait without an attempt. Default: all of the host where it is the only subscription, else three quarters of the host's `concurrency`, so
 *   that a slow subscription leaves room for the others. `retry`: retries, timeout and dead letters; `retryByType`: the same for single types,
 *   on top of `retry`.
 * @throws `invalid-option`, `unknown-event-type`
 */
export function defineSubscription<W extends AnyWorkflow, Type extends EventTypeOf<W> = EventTypeOf<W>>(
  workflow: W,
  definition: {
    readonly name: string;
    readonly events?: readonly Type[];
    readonly when?: (event: StoredEventOf<W, Type>) => boolean;
    readonly concurrency?: number;
    readonly retry?: RetryOptions;
    readonly retryByType?: { readonly [T in NoInfer<Type>]?: RetryOptions };
    readonly handle: (event: HandledEvent<W, Type>, context: HandlerContext) => Promise<void> | void;
  },
): Subscription {
  assertSubscriptionName(definition.name);
  const { events, concurrency } = definition;
  // Asked only once the type is known to be one of its own.
  const when = definition.when as ((event: StoredEvent) => boolean) | undefined;
  for (const type of events ?? []) {
    if (!Object.hasOwn(workflow.events, type)) {
      throw new OutboxError(
        "unknown-event-type",
        `subscription ${definition.name} wants ${type}, which workflow ${workflow.name} does not declare`,
      );
    }
  }
  const retryByType: Record<string, RetryPolicy> = {};
  for (const [type, retry] of Object.entries(definition.retryByType ?? {})) {
    if (!Object.hasOwn(workflow.events, type)) {
      throw new OutboxError(
        "unknown-event-type",
        `subscription ${definition.name} has retries for ${type}, which workflow ${workflow.name} does not declare`,
      );
    }
    retryByType[type] = resolveRetryPolicy(`subscription ${definition.name}, ${type}`, { ...definition.retry, ...(retry as RetryOptions) });
  }
  const types: ReadonlySet<string> | undefined = events && new Set(events);
  return {
    name: definition.name,
    workflow,
    concurrency:
      concurrency === undefined ? undefined : wholeNumber(`subscription ${definition.name}: concurrency`, concurrency, CONCURRENCY),
    retry: resolveRetryPolicy(`subscription ${definition.name}`, definition.retry),
    retryByType,
    wants: (event) => (types === undefined || types.has(event.type)) && (when === undefined || answered(when(event), definition.name)),
    handle: definition.handle as unknown as Subscription["handle"],
  };
}

/** A promise would count as yes: an async predicate is refused when it is asked. */
function answered(answer: unknown, name: string): boolean {
  if (typeof answer !== "boolean") throw new TypeError(`the predicate of subscription ${name} must return true or false, at once`);
  return answer;
}

/** Refuses none, too many for the progress, doubled names, and subscriptions of another workflow. */
export function assertSubscriptions(workflow: AnyWorkflow, subscriptions: readonly Subscription[]): void {
  if (subscriptions.length === 0) throw new OutboxError("invalid-option", "subscriptions is empty: nobody would handle the events");
  if (subscriptions.length > MAX_SUBSCRIPTIONS) {
    throw new OutboxError("invalid-option", `${subscriptions.length} subscriptions: at most ${MAX_SUBSCRIPTIONS} are allowed`);
  }
  const names = new Set<string>();
  for (const { name, workflow: own } of subscriptions) {
    assertSubscriptionName(name);
    if (own !== workflow) throw new OutboxError("invalid-option", `subscription ${name} was defined for another workflow (${own.name})`);
    if (names.has(name)) throw new OutboxError("invalid-option", `subscription ${name} is declared twice`);
    names.add(name);
  }
}
