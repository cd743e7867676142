metadata name = 'Roles'
metadata description = 'Who may do what: the least set of built-in roles for each kind of identity.'

import { grant } from 'types.bicep'
import { containers, ordersTable, poisonQueue, wakeUpQueue } from 'names.bicep'

@export()
@description('Ids of the built-in roles; the same in every tenant.')
var builtInRoles = {
  blobDataContributor: 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'
  blobDataOwner: 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'
  blobDataReader: '2a2b9908-6ea1-4ae2-8e65-a410df84e7d1'
  monitoringMetricsPublisher: '3913510d-42f4-4e42-8a64-420c390055eb'
  queueDataContributor: '974c5e8b-45b9-4653-ba55-5f855dd0fb88'
  queueDataReader: '19e7f393-937e-4f77-808e-94535e297925'
  tableDataContributor: '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3'
  tableDataReader: '76199698-9eea-4c19-bc75-cec21354c6b6'
}

// The identity of the function app. Blobs and tables on the whole account, because the Functions host keeps things of its own there and
// creates them itself: locks of timers, function keys, the deployed package; a table of diagnostic events for each month. Timers need Owner.
// Queues one by one: releasing a wake-up that failed is an update, which Message Processor does not cover (C38).
@export()
@description('What the function app needs.')
var workerGrants grant[] = [
  { role: 'blobDataOwner' }
  { role: 'tableDataContributor' }
  { role: 'queueDataContributor', on: [wakeUpQueue, poisonQueue] }
]

// A producer sends its wake-up hidden, and then makes it visible or takes it back: an update and a delete, which no smaller queue role covers.
// It writes payloads that are too big for the table. After a lost answer it asks whether the commit was its own, which reads the events,
// the archive and the progress on the lease blob (C2). It is trusted with all of `orders` and `payloads`: there it could change or delete orders,
// pauses and events that are not relayed yet, without a record. Out of its reach is what was relayed, and the leases that handling takes.
@export()
@description('What a producer needs. It can change nothing that was relayed, and take no lease; what is not relayed yet it could delete.')
var producerGrants grant[] = [
  { role: 'tableDataContributor', on: [ordersTable] }
  { role: 'queueDataContributor', on: [wakeUpQueue] }
  { role: 'blobDataContributor', on: [containers.payloads] }
  { role: 'blobDataReader', on: [containers.events, containers.archive, containers.leases] }
]

// Container by container: the account also holds the host's function keys and the deployed code.
@export()
@description('What an operator needs who looks and changes nothing.')
var operatorReaderGrants grant[] = [
  { role: 'tableDataReader', on: [ordersTable] }
  { role: 'queueDataReader', on: [wakeUpQueue, poisonQueue] }
  {
    role: 'blobDataReader'
    on: [
      containers.events
      containers.archive
      containers.dead
      containers.audit
      containers.payloads
      containers.leases
    ]
  }
]

// Decisions are metadata of events, pauses are rows, `unlock` breaks a lease, every change is written to the audit log. Wake-ups
// are sent; a replay's is sent hidden and then made visible, as a producer's: an update, so Message Sender would not do.
// The commands of an operator write the audit log, so operators are trusted with it too: they could change or delete what it says.
@export()
@description('What an operator needs for redrive, discard, pause, resume, wake, unlock, replay, backfill, sweep, reconcile and cleanup.')
var operatorGrants grant[] = [
  { role: 'tableDataContributor', on: [ordersTable] }
  { role: 'queueDataContributor', on: [wakeUpQueue] }
  { role: 'queueDataReader', on: [poisonQueue] }
  {
    role: 'blobDataContributor'
    on: [
      containers.events
      containers.archive
      containers.dead
      containers.audit
      containers.payloads
      containers.leases
    ]
  }
]
