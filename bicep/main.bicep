metadata name = 'ordered-outbox'
metadata description = 'One storage account, one function app, and who may use and watch them. Deployed into a resource group.'

targetScope = 'resourceGroup'

import { containers, ordersTable, poisonQueue, wakeUpQueue } from 'modules/names.bicep'
import { operatorGrants, operatorReaderGrants, producerGrants, workerGrants } from 'modules/roles.bicep'
import { principal, serviceEndpoints, settingMap, storageNames, tagMap } from 'modules/types.bicep'

@description('Required. Name of the environment; part of the names of everything. Lower-case letters, digits and dashes.')
@minLength(2)
@maxLength(20)
param environmentName string

@description('Optional. Region of everything; one that has Flex Consumption (`az functionapp list-flexconsumption-locations`).')
param location string = resourceGroup().location

@description('Optional. Tags of everything.')
param tags tagMap = {}

@description('Optional. Redundancy of the storage account. After a failover of a geo-redundant one the last minutes may be missing: run `verify`.')
@allowed(['Standard_LRS', 'Standard_ZRS', 'Standard_GRS', 'Standard_GZRS', 'Standard_RAGRS', 'Standard_RAGZRS'])
param storageSkuName string = 'Standard_LRS'

@description('Optional. Days in which a deleted blob can be undeleted; 0 for none. Every handled event is a deleted blob: above a million events a day take 1 or 0, or the sweeps have to walk over millions of them.')
@minValue(0)
@maxValue(365)
param softDeleteDays int = 7

@description('Optional. Days after which archived events are deleted even if the cleanup never runs. The cleanup (7 days, discarded ones 30) acts first: keep this well above its settings.')
@minValue(90)
@maxValue(36500)
param archiveLifecycleDays int = 365

@description('Optional. Days after which audit records are deleted even if the cleanup never runs. The cleanup (30 days) acts first: keep this well above its setting.')
@minValue(90)
@maxValue(36500)
param auditLifecycleDays int = 365

@description('Optional. Version of Node.js.')
@allowed(['22', '24'])
param nodeVersion string = '22'

// Not 512: the 24 rounds that host.json lets an instance run do not fit.
@description('Optional. Memory of an instance in MB.')
@allowed([2048, 4096])
param instanceMemoryMB int = 2048

@description('Optional. Most instances of the app. Some regions refuse fewer than 40.')
@minValue(1)
@maxValue(1000)
param maximumInstanceCount int = 40

@description('Optional. Instances that wait for wake-ups all the time and are paid all the time; 0: the first wake-up after a quiet while waits for an instance to start. At least 2 with zone redundancy, or 0.')
@minValue(0)
@maxValue(100)
param alwaysReadyInstances int = 0

@description('Optional. Whether the plan spreads over availability zones; the region must have them.')
param isZoneRedundant bool = false

@description('Optional. True: a virtual network of its own, private endpoints for blob, queue and table, and no public access to the account. Producers and operators then need a way into that network, and its DNS zones; operators can use their commands from there only.')
param isPrivate bool = false

@description('Optional. Address range of that network, at least a /23.')
param networkAddressPrefix string = '10.90.0.0/16'

@description('Optional. Who may commit: identities of the applications that produce.')
param producers principal[] = []

@description('Optional. Who may look: status, orders, explain, dead list, verify, metrics.')
param operatorReaders principal[] = []

@description('Optional. Who may look and act: redrive, discard, replay, backfill, pause, resume, wake, unlock, cleanup.')
param operators principal[] = []

@description('Optional. Addresses that get an e-mail from alerts.')
param alertEmails string[] = []

@description('Optional. False: alerts exist and stay quiet.')
param areAlertsEnabled bool = true

@description('Optional. Days that telemetry is kept.')
@minValue(30)
@maxValue(730)
param telemetryRetentionDays int = 30

@description('Optional. Most telemetry a day in GB; -1 for no limit. Alerts are blind for the rest of a day on which it is reached.')
param telemetryDailyQuotaGb int = -1

@description('Optional. Application (client) id of an Entra application that guards the HTTP functions (Easy Auth); empty: function keys only.')
param operationsClientId string = ''

@description('Optional. Further settings of the app, webhook addresses and secrets above all; secrets as references to a key vault. All settings belong here: a deployment replaces the whole set, and those of the template win.')
param extraAppSettings settingMap = {}

var token = uniqueString(resourceGroup().id, environmentName)
// Known before anything is deployed, so that a preview (what-if) sees what depends on it.
var storageAccountName = 'outbox${token}'
var allTags = union(tags, { 'azd-env-name': environmentName })

module identity 'modules/identity.bicep' = {
  name: 'identity-${environmentName}'
  params: {
    name: 'id-${environmentName}-${token}'
    location: location
    tags: allTags
  }
}

module storage 'modules/storage.bicep' = {
  name: 'storage-${environmentName}'
  params: {
    name: storageAccountName
    location: location
    tags: allTags
    skuName: storageSkuName
    isPrivate: isPrivate
    archiveLifecycleDays: archiveLifecycleDays
    auditLifecycleDays: auditLifecycleDays
    softDeleteDays: softDeleteDays
  }
}

module network 'modules/network.bicep' = if (isPrivate) {
  name: 'network-${environmentName}'
  params: {
    name: 'vnet-${environmentName}-${token}'
    location: location
    tags: allTags
    addressPrefix: networkAddressPrefix
    storageAccountName: storageAccountName
  }
  dependsOn: [storage]
}

module workerAccess 'modules/access.bicep' = {
  name: 'access-worker-${environmentName}'
  params: {
    storageAccountName: storageAccountName
    principals: [{ id: identity.outputs.principalId, type: 'ServicePrincipal' }]
    grants: workerGrants
  }
  dependsOn: [storage]
}

module producerAccess 'modules/access.bicep' = {
  name: 'access-producers-${environmentName}'
  params: {
    storageAccountName: storageAccountName
    principals: producers
    grants: producerGrants
  }
  dependsOn: [storage]
}

module operatorReaderAccess 'modules/access.bicep' = {
  name: 'access-operator-readers-${environmentName}'
  params: {
    storageAccountName: storageAccountName
    principals: operatorReaders
    grants: operatorReaderGrants
  }
  dependsOn: [storage]
}

module operatorAccess 'modules/access.bicep' = {
  name: 'access-operators-${environmentName}'
  params: {
    storageAccountName: storageAccountName
    principals: operators
    grants: operatorGrants
  }
  dependsOn: [storage]
}

module monitoring 'modules/monitoring.bicep' = {
  name: 'monitoring-${environmentName}'
  params: {
    workspaceName: 'log-${environmentName}-${token}'
    insightsName: 'appi-${environmentName}-${token}'
    location: location
    tags: allTags
    retentionDays: telemetryRetentionDays
    dailyQuotaGb: telemetryDailyQuotaGb
    // Known only once the identity is there: a preview leaves this role out.
    #disable-next-line what-if-short-circuiting
    publisherPrincipalId: identity.outputs.principalId
  }
}

module alerts 'modules/alerts.bicep' = {
  name: 'alerts-${environmentName}'
  params: {
    namePrefix: 'outbox-${environmentName}'
    location: location
    tags: allTags
    workspaceId: monitoring.outputs.workspaceId
    emails: alertEmails
    isEnabled: areAlertsEnabled
  }
}

module functionApp 'modules/function-app.bicep' = {
  name: 'function-app-${environmentName}'
  params: {
    name: 'func-${environmentName}-${token}'
    planName: 'plan-${environmentName}-${token}'
    location: location
    tags: allTags
    identityId: identity.outputs.id
    identityClientId: identity.outputs.clientId
    storageAccountName: storage.outputs.name
    deploymentContainerUrl: storage.outputs.deploymentContainerUrl
    insightsConnectionString: monitoring.outputs.connectionString
    nodeVersion: nodeVersion
    instanceMemoryMB: instanceMemoryMB
    maximumInstanceCount: maximumInstanceCount
    alwaysReadyInstances: alwaysReadyInstances
    isZoneRedundant: isZoneRedundant
    subnetId: network.?outputs.appSubnetId ?? ''
    operationsClientId: operationsClientId
    extraAppSettings: extraAppSettings
  }
  // Its roles take minutes to reach the storage service: the host would not start, and the first package could not be stored.
  dependsOn: [workerAccess]
}

// In camel case: Resource Manager gives other spellings back with the case of some letters changed, and a query by name would find nothing.
@description('Name of the function app.')
output functionAppName string = functionApp.outputs.name

@description('Address of the function app.')
output functionAppUrl string = functionApp.outputs.url

@description('For a producer: the account, `connectStorage({ accountName })`; for an operator: the variable ORDERED_OUTBOX_ACCOUNT of the command line.')
output storageAccountName string = storage.outputs.name

@description('For a producer: addresses of the services, which must be reachable from where it runs.')
output storageEndpoints serviceEndpoints = storage.outputs.endpoints

@description('For a producer: names of the table, the queues and the containers.')
output storageNames storageNames = {
  table: ordersTable
  queue: wakeUpQueue
  poisonQueue: poisonQueue
  containers: containers
}

@description('Resource id of the account, the beginning of every scope of a role.')
output storageAccountId string = storage.outputs.id

@description('Object id of the identity of the app, for the role on a key vault.')
output workerPrincipalId string = identity.outputs.principalId

@description('Resource id of the network, if there is one: peer it with those of producers and operators, both ways, and link the DNS zones to theirs.')
output networkId string = network.?outputs.networkId ?? ''
