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
  Subscription,
  Workflow,
} from "./core/workflow.ts";
export type { Schema } from "./core/schema.ts";
export { rawJson } from "./core/json.ts";
export type { RawJson } from "./core/json.ts";
export type { StoredEvent } from "./core/event.ts";
export type { EventId } from "./core/event-id.ts";
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

// Errors and seams
export { isOutboxError, OutboxError } from "./core/errors.ts";
export type { ErrorCode, ErrorDetails } from "./core/errors.ts";
export type { Clock } from "./core/clock.ts";
export type { Logger, LogFields } from "./core/logger.ts";
