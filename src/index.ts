/** The public API for applications. */

// Declaring a workflow
export { defineSubscription, defineWorkflow } from "./core/workflow.ts";
export type {
  AnyWorkflow,
  EventInput,
  EventSchemas,
  EventTypeOf,
  HandledEvent,
  HandlerContext,
  StoredEventOf,
  Subscription,
  Workflow,
} from "./core/workflow.ts";
export type { Schema } from "./core/schema.ts";
export { rawJson } from "./core/json.ts";
export type { RawJson } from "./core/json.ts";
export type { StoredEvent } from "./core/event.ts";
export type { EventId } from "./core/event-id.ts";
export { parseOrderId } from "./core/order-id.ts";
export type { OrderId } from "./core/order-id.ts";

// Storage
export { connectStorage } from "./storage/connect.ts";
export type { AccountOptions, ConnectedStorage, StorageOptions } from "./storage/connect.ts";
export type { CallCounts } from "./storage/call-counter.ts";
export type { CallOptions, Etag, Storage, WakeUpQueue } from "./core/ports.ts";

// Producing
export { createOutbox } from "./producer/outbox.ts";
export type { Outbox, OutboxOptions } from "./producer/outbox.ts";
export type { Change, CommitOptions, CommitResult, Decide, Order } from "./producer/order-change.ts";
export type { EventReference } from "./core/commit-tokens.ts";
export type { ApplicationEntity, StoredEntity, TableValue } from "./core/ports.ts";

// Handling
export { createWorker } from "./worker/worker.ts";
export type { WorkerOptions } from "./worker/worker.ts";
export type { RoundResult, Worker } from "./worker/round-result.ts";
export { startWorkerHost } from "./worker/host.ts";
export type { HostStatus, StopReport, WorkerHost } from "./worker/host.ts";
export { startHealthServer } from "./worker/health-server.ts";
export type { HealthServer, HealthServerOptions } from "./worker/health-server.ts";
export type { WorkerHostOptions } from "./worker/host-options.ts";

// Failing
export { PermanentError, RetryableError, SubscriptionGoneError } from "./core/retry.ts";
export type { DeadLetterPolicy, RetryOptions, RetryPolicy } from "./core/retry.ts";

// Webhooks
export { defineWebhook } from "./webhook/define-webhook.ts";
export { webhooksFromSettings } from "./webhook/settings.ts";
export { verifyWebhook } from "./webhook/verify-webhook.ts";
export type { WebhookDefinition, WebhookSubscription } from "./webhook/webhook-subscription.ts";
export type { WebhookOptions } from "./webhook/webhook-options.ts";
export type { ClientErrorPolicy } from "./webhook/answer.ts";
export type { ReceivedHeaders, VerifiedWebhook, VerifyWebhookOptions, WebhookRefusal } from "./webhook/verify-webhook.ts";

// Healing by itself
export { createSweeper } from "./operations/sweep.ts";
export type { Sweeper, SweeperOptions, SweepOptions, SweepResult } from "./operations/sweep.ts";
export type { ForeignNames } from "./operations/stream-heads.ts";
export type { SubscriptionFigures } from "./operations/metrics.ts";
export { createReconciler } from "./operations/reconcile.ts";
export type { ReconcileOptions, Reconciler, ReconcilerOptions, ReconcileResult } from "./operations/reconcile.ts";
export { createCleaner } from "./operations/cleanup.ts";
export type { Cleaner, CleanerOptions, CleanupOptions, CleanupProgress, CleanupResult, CleanupStep } from "./operations/cleanup.ts";
export { startSchedule } from "./operations/schedule.ts";
export type { Schedule, ScheduleOptions } from "./operations/schedule.ts";

// Watching
export { METRICS, recordStorageCall } from "./system/metrics.ts";
export type { MetricInfo, MetricName } from "./system/metrics.ts";
export type { PriceClass, StorageCall, StorageService } from "./storage/call-counter.ts";

// Operating: what the commands of `ordered-outbox` do
export type { ChangeOptions, OperationsContext, Operator } from "./operations/context.ts";
export { readStatus } from "./operations/status.ts";
export type { Status, StatusOptions, SubscriptionStatus, UnrelayedStatus } from "./operations/status.ts";
export { listOrders } from "./operations/orders.ts";
export type { HeadState, ListedOrder, OrderHead, OrderListFilter, OrderListing } from "./operations/orders.ts";
export { showOrder } from "./operations/show-order.ts";
export type { ShownEvent, ShownOrder } from "./operations/show-order.ts";
export type { TimelineEntry, TimelineState } from "./operations/timeline.ts";
export { explain } from "./operations/explain.ts";
export type { ExplainOptions } from "./operations/explain.ts";
export type { Explanation, Verdict, VerdictCode } from "./core/explain.ts";
export { listDeadLetters, showDeadLetter } from "./operations/dead-letters.ts";
export type {
  DeadLetterFilter,
  DeadLetterGroup,
  DeadLetterListing,
  DeadLetterTarget,
  ListedDeadLetter,
  ShownDeadLetter,
} from "./operations/dead-letters.ts";
export type { DeadLetter, DeadLetterSummary } from "./core/dead-letter.ts";
export { decideMany, decideOrder, discardPending } from "./operations/decide-many.ts";
export type {
  DecideManyOptions,
  DecideManyResult,
  DecideOptions,
  DiscardPendingOptions,
  OrderFilter,
  PendingFilter,
} from "./operations/decide-many.ts";
export type { DecisionAction, DecisionResult, DecisionTarget } from "./operations/decide.ts";
export type { Decision, FailureRecord, PendingState } from "./core/pending-event.ts";
export { replay } from "./operations/replay.ts";
export type { ReplayOptions, ReplayTarget } from "./operations/replay.ts";
export { backfill } from "./operations/backfill.ts";
export type { BackfillOptions, BackfillTarget } from "./operations/backfill.ts";
export type { ReplayResult } from "./operations/replay-totals.ts";
export type { ReplayedOrder, SkipReason } from "./operations/replay-order.ts";
export { listPauses } from "./operations/list-pauses.ts";
export { pause, resume } from "./operations/pauses.ts";
export type { PauseOptions, PauseResult, PauseTarget, ResumeResult } from "./operations/pauses.ts";
export type { Pause } from "./core/controls.ts";
export { listAudit } from "./operations/list-audit.ts";
export type { AuditFilter, AuditListing } from "./operations/list-audit.ts";
export type { AuditAction, AuditRecord, AuditTarget } from "./core/audit-record.ts";
export { wakeOrder } from "./operations/wake.ts";
export type { WakeOptions, WakeResult } from "./operations/wake.ts";
export { unlockOrder } from "./operations/unlock.ts";
export type { UnlockResult } from "./operations/unlock.ts";
export { verifyAll, verifyOrder } from "./operations/verify.ts";
export type { OrderFinding, VerifyOptions, VerifyResult } from "./operations/verify.ts";
export type { Finding, FindingKind } from "./operations/finding.ts";

// Errors and seams
export { isOutboxError, OutboxError } from "./core/errors.ts";
export type { ErrorCode, ErrorDetails } from "./core/errors.ts";
export { systemClock } from "./system/clock.ts";
export type { Clock } from "./core/clock.ts";
export type { Logger, LogFields } from "./core/logger.ts";
