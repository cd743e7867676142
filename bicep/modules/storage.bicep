metadata name = 'Storage'
metadata description = 'The one storage account: table, queues, containers, and what may be deleted by age.'

import { containers, deploymentContainer, ordersTable, poisonQueue, wakeUpQueue } from 'names.bicep'
import { serviceEndpoints, tagMap } from 'types.bicep'

@description('Name of the account: 3 to 24 lower-case letters and digits.')
@minLength(3)
@maxLength(24)
param name string

@description('Region of the account; that of the function app.')
param location string

@description('Tags of the account.')
param tags tagMap

@description('Redundancy of the account.')
param skuName string

@description('True closes the account to public networks: it is reached through private endpoints only.')
param isPrivate bool

@description('Days after which archived events are deleted whatever the cleanup did.')
param archiveLifecycleDays int

@description('Days after which audit records are deleted whatever the cleanup did.')
param auditLifecycleDays int

@description('Days in which a deleted blob can be undeleted; 0 for none.')
param softDeleteDays int

resource account 'Microsoft.Storage/storageAccounts@2025-06-01' = {
  name: name
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: {
    name: skuName
  }
  properties: {
    accessTier: 'Hot'
    allowBlobPublicAccess: false
    allowCrossTenantReplication: false
    allowSharedKeyAccess: false
    defaultToOAuthAuthentication: true
    // Hierarchical namespace sorts listings differently and knows no blob batch; the code refuses such an account.
    isHnsEnabled: false
    minimumTlsVersion: 'TLS1_2'
    networkAcls: {
      bypass: isPrivate ? 'None' : 'AzureServices'
      defaultAction: isPrivate ? 'Deny' : 'Allow'
    }
    publicNetworkAccess: isPrivate ? 'Disabled' : 'Enabled'
    supportsHttpsTrafficOnly: true
  }
}

resource blobService 'Microsoft.Storage/storageAccounts/blobServices@2025-06-01' = {
  parent: account
  name: 'default'
  properties: {
    containerDeleteRetentionPolicy: {
      enabled: true
      days: 7
    }
    deleteRetentionPolicy: softDeleteDays > 0
      ? {
          enabled: true
          days: softDeleteDays
        }
      : {
          enabled: false
        }
    // The progress of an order is metadata of its lease blob, and every write of metadata would make a version: thousands for a busy order,
    // each billed, and slow listings from 1,000 on.
    isVersioningEnabled: false
  }
}

resource blobContainers 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-06-01' = [
  for container in concat(map(items(containers), each => each.value), [deploymentContainer]): {
    parent: blobService
    name: container
    properties: {
      publicAccess: 'None'
    }
  }
]

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-06-01' = {
  parent: account
  name: 'default'
}

resource queues 'Microsoft.Storage/storageAccounts/queueServices/queues@2025-06-01' = [
  for queue in [wakeUpQueue, poisonQueue]: {
    parent: queueService
    name: queue
  }
]

resource tableService 'Microsoft.Storage/storageAccounts/tableServices@2025-06-01' = {
  parent: account
  name: 'default'
}

resource table 'Microsoft.Storage/storageAccounts/tableServices/tables@2025-06-01' = {
  parent: tableService
  name: ordersTable
}

// F7 is kept by the cleanup, by the time an event was finished, long before these rules act. They are the net below it, for a cleanup that is
// switched off or fails for months. A prefix begins with the name of the container and its slash, so that a rule sees these two containers
// and no other: neither what waits (events, dead, payloads, leases), nor what the Functions host keeps (azure-webjobs-*, the package).
resource lifecycle 'Microsoft.Storage/storageAccounts/managementPolicies@2025-06-01' = {
  parent: account
  name: 'default'
  properties: {
    policy: {
      rules: [
        {
          name: 'delete-old-archive'
          type: 'Lifecycle'
          enabled: true
          definition: {
            actions: {
              baseBlob: {
                delete: {
                  daysAfterModificationGreaterThan: archiveLifecycleDays
                }
              }
            }
            filters: {
              blobTypes: ['blockBlob']
              prefixMatch: ['${containers.archive}/']
            }
          }
        }
        {
          name: 'delete-old-audit'
          type: 'Lifecycle'
          enabled: true
          definition: {
            actions: {
              baseBlob: {
                delete: {
                  daysAfterModificationGreaterThan: auditLifecycleDays
                }
              }
            }
            filters: {
              blobTypes: ['blockBlob']
              prefixMatch: ['${containers.audit}/']
            }
          }
        }
      ]
    }
  }
}

@description('Name of the account.')
output name string = account.name

@description('Resource id of the account.')
output id string = account.id

@description('Where the deployed package lies.')
output deploymentContainerUrl string = '${account.properties.primaryEndpoints.blob}${deploymentContainer}'

@description('Addresses of the services.')
output endpoints serviceEndpoints = {
  blob: account.properties.primaryEndpoints.blob
  queue: account.properties.primaryEndpoints.queue
  table: account.properties.primaryEndpoints.table
}
