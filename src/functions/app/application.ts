/** The parts of this deployment, put together once a process, when the first function needs them. */
import type { AnyWorkflow, Subscription } from "../../core/workflow.ts";
import { createCleaner, type Cleaner } from "../../operations/cleanup.ts";
import { createReconciler, type Reconciler } from "../../operations/reconcile.ts";
import { createSweeper, type Sweeper } from "../../operations/sweep.ts";
import { createSubscriptions } from "../../shipment/subscriptions.ts";
import { shipmentWorkflow } from "../../shipment/workflow.ts";
import { connectStorage, type AccountOptions } from "../../storage/connect.ts";
import type { Storage } from "../../core/ports.ts";
import { systemClock } from "../../system/clock.ts";
import { recordStorageCall } from "../../system/metrics.ts";
import type { Worker } from "../../worker/round-result.ts";
import { createWorker } from "../../worker/worker.ts";
import { assertTimeoutsFit } from "./function-timeout.ts";
import { HiddenCopies } from "./hidden-copies.ts";
import { invocationLogger } from "./invocation-logger.ts";
import { accountSetting, numberSetting, type Environment } from "./settings.ts";

export interface Application {
  readonly storage: Storage;
  readonly workflow: AnyWorkflow;
  readonly subscriptions: readonly Subscription[];
  readonly worker: Worker;
  readonly copies: HiddenCopies;
  readonly sweeper: Sweeper;
  readonly reconciler: Reconciler;
  readonly cleaner: Cleaner;
}

const DEFAULT_TIME_BUDGET_MS = 240_000;

let current: Promise<Application> | undefined;
let started: Application | undefined;

/**
 * A failure is told to every function that asks, and tried again with the next one: it may be the network, and a wrong setting shows in the
 * invocation's own log instead of as "no functions found".
 *
 * @throws `invalid-option`, naming the setting; `unsupported-account`; what storage throws
 */
export function application(): Promise<Application> {
  current ??= createApplication(process.env).catch((error: unknown) => {
    current = undefined;
    throw error;
  });
  return current;
}

/** Undefined if no function has needed it yet. */
export function startedApplication(): Application | undefined {
  return started;
}

async function createApplication(environment: Environment): Promise<Application> {
  const logger = invocationLogger;
  const subscriptions = createSubscriptions(environment, logger);
  const timeBudgetMs = numberSetting(environment, "ORDERED_OUTBOX_TIME_BUDGET_MS") ?? DEFAULT_TIME_BUDGET_MS;
  assertTimeoutsFit(subscriptions, timeBudgetMs);
  const storage = connectStorage({ ...(await accountOptions(environment)), onCall: recordStorageCall });
  await storage.checkAccount();
  const number = <Name extends string>(name: Name, variable: string): { readonly [N in Name]?: number } => {
    const value = numberSetting(environment, variable);
    return (value === undefined ? {} : { [name]: value }) as { readonly [N in Name]?: number };
  };
  const workflow = shipmentWorkflow;
  started = {
    storage,
    workflow,
    subscriptions,
    worker: createWorker({
      workflow,
      subscriptions,
      storage,
      timeBudgetMs,
      lease: number("durationMs", "ORDERED_OUTBOX_LEASE_MS"),
      logger,
    }),
    copies: new HiddenCopies(storage.wakeUps, systemClock),
    // Orders of subscriptions that are gone from this deployment are not woken: no worker could handle their events (F10).
    sweeper: createSweeper({ storage, subscriptions: subscriptions.map(({ name }) => name), logger }),
    reconciler: createReconciler({ storage, ...number("safetyDelayMs", "ORDERED_OUTBOX_SAFETY_DELAY_MS"), logger }),
    cleaner: createCleaner({
      storage,
      ...number("archiveDays", "ORDERED_OUTBOX_ARCHIVE_DAYS"),
      ...number("discardedDays", "ORDERED_OUTBOX_DISCARDED_DAYS"),
      ...number("auditDays", "ORDERED_OUTBOX_AUDIT_DAYS"),
      ...number("idempotencyDays", "ORDERED_OUTBOX_IDEMPOTENCY_DAYS"),
      logger,
    }),
  };
  return started;
}

async function accountOptions(environment: Environment): Promise<AccountOptions> {
  const account = accountSetting(environment);
  if ("connectionString" in account) return account;
  // Loaded only where it is needed: it is the slowest package to load.
  const { ManagedIdentityCredential } = await import("@azure/identity");
  const { accountName, clientId } = account;
  return {
    accountName,
    credential: clientId === undefined ? new ManagedIdentityCredential() : new ManagedIdentityCredential({ clientId }),
  };
}
