metadata name = 'Access'
metadata description = 'Gives principals their roles on the storage account, each on the smallest scope there is.'

import { grant, principal } from 'types.bicep'
import { builtInRoles } from 'roles.bicep'

@description('Name of the storage account.')
param storageAccountName string

@description('Who gets access.')
param principals principal[]

@description('What each of them gets.')
param grants grant[]

type assignment = {
  @description('Who.')
  principal: principal

  @description('A key of builtInRoles.')
  role: string

  @description('Name of the container, queue or table; empty for the whole account.')
  on: string
}

var assignments assignment[] = flatten(map(
  principals,
  each => flatten(map(grants, given => map(given.?on ?? [''], name => { principal: each, role: given.role, on: name })))
))
var onAccount = filter(assignments, each => empty(each.on))
var onContainers = filter(assignments, each => !empty(each.on) && startsWith(each.role, 'blob'))
var onQueues = filter(assignments, each => !empty(each.on) && startsWith(each.role, 'queue'))
var onTables = filter(assignments, each => !empty(each.on) && startsWith(each.role, 'table'))

resource account 'Microsoft.Storage/storageAccounts@2025-06-01' existing = {
  name: storageAccountName
}

resource blobService 'Microsoft.Storage/storageAccounts/blobServices@2025-06-01' existing = {
  parent: account
  name: 'default'
}

resource queueService 'Microsoft.Storage/storageAccounts/queueServices@2025-06-01' existing = {
  parent: account
  name: 'default'
}

resource tableService 'Microsoft.Storage/storageAccounts/tableServices@2025-06-01' existing = {
  parent: account
  name: 'default'
}

resource containers 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-06-01' existing = [
  for each in onContainers: {
    parent: blobService
    name: each.on
  }
]

resource queues 'Microsoft.Storage/storageAccounts/queueServices/queues@2025-06-01' existing = [
  for each in onQueues: {
    parent: queueService
    name: each.on
  }
]

resource tables 'Microsoft.Storage/storageAccounts/tableServices/tables@2025-06-01' existing = [
  for each in onTables: {
    parent: tableService
    name: each.on
  }
]

// The principal is part of every name: an identity that was deleted and made anew must not meet the assignment of the old one (C38).
resource accountAssignments 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for each in onAccount: {
    scope: account
    name: guid(account.id, each.principal.id, builtInRoles[each.role])
    properties: {
      principalId: each.principal.id
      principalType: each.principal.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', builtInRoles[each.role])
    }
  }
]

resource containerAssignments 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, index) in onContainers: {
    scope: containers[index]
    name: guid(containers[index].id, each.principal.id, builtInRoles[each.role])
    properties: {
      principalId: each.principal.id
      principalType: each.principal.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', builtInRoles[each.role])
    }
  }
]

resource queueAssignments 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, index) in onQueues: {
    scope: queues[index]
    name: guid(queues[index].id, each.principal.id, builtInRoles[each.role])
    properties: {
      principalId: each.principal.id
      principalType: each.principal.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', builtInRoles[each.role])
    }
  }
]

resource tableAssignments 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (each, index) in onTables: {
    scope: tables[index]
    name: guid(tables[index].id, each.principal.id, builtInRoles[each.role])
    properties: {
      principalId: each.principal.id
      principalType: each.principal.type
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', builtInRoles[each.role])
    }
  }
]
