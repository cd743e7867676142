metadata name = 'Names'
metadata description = 'Every name that the template shares with the code. A test compares them with src/.'

// src/core/names.ts
@export()
@description('Table of the orders, their outboxes and the idempotency results.')
var ordersTable = 'orders'

@export()
@description('Queue of the wake-ups.')
var wakeUpQueue = 'wake-ups'

@export()
@description('Where the host puts a wake-up that failed too often. Created here, so that the host needs no right to create queues.')
var poisonQueue = 'wake-ups-poison'

@export()
@description('Containers of the outbox: pending events, finished ones, the index of dead letters, operator actions, spilled payloads, leases.')
var containers = {
  events: 'events'
  archive: 'archive'
  dead: 'dead'
  audit: 'audit'
  payloads: 'payloads'
  leases: 'leases'
}

@export()
@description('The container that the deployed code lies in. Not one of the outbox: the code never opens it.')
var deploymentContainer = 'app-package'

// src/functions
@export()
@description('The function that handles wake-ups; always-ready instances are for it.')
var wakeUpsFunction = 'wakeUps'

@export()
@description('Settings of our own that the function app reads.')
var settings = {
  account: 'ORDERED_OUTBOX_ACCOUNT'
  clientId: 'ORDERED_OUTBOX_CLIENT_ID'
}

// src/system/metrics.ts
@export()
@description('Metrics that alerts look at.')
var metrics = {
  oldestAge: 'outbox_oldest_age'
  dead: 'outbox_dead_total'
  failures: 'outbox_publish_failure_total'
  attempts: 'outbox_attempts_total'
  sweeps: 'outbox_sweep_total'
  gaps: 'outbox_gap_total'
  unrelayedAge: 'outbox_unrelayed_oldest_age'
}
