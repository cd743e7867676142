metadata name = 'Types'
metadata description = 'Shapes of parameters that several files share.'

@export()
@description('Somebody who gets access. The id is the object id in Entra, of a service principal not its application id.')
type principal = {
  @description('Object id.')
  @minLength(36)
  @maxLength(36)
  id: string

  @description('What the object is. A managed identity is a ServicePrincipal. Without it, Azure may not find an identity that is new.')
  type: 'ServicePrincipal' | 'Group' | 'User'
}

@export()
@description('Tags of a resource.')
type tagMap = {
  *: string
}

@export()
@secure()
@description('Settings of a function app. Secret as a whole: deployments do not record it.')
type settingMap = {
  *: string
}

@export()
@description('Addresses of the storage services.')
type serviceEndpoints = {
  @description('Address of the blob service.')
  blob: string

  @description('Address of the queue service.')
  queue: string

  @description('Address of the table service.')
  table: string
}

@export()
@description('Names in the storage account.')
type storageNames = {
  @description('Table of the orders.')
  table: string

  @description('Queue of the wake-ups.')
  queue: string

  @description('Queue of the wake-ups that failed too often.')
  poisonQueue: string

  @description('Containers, by what they are for.')
  containers: {
    *: string
  }
}

@export()
@description('One role on one part of the storage account.')
type grant = {
  @description('A key of builtInRoles.')
  role:
    | 'blobDataContributor'
    | 'blobDataOwner'
    | 'blobDataReader'
    | 'queueDataContributor'
    | 'queueDataReader'
    | 'tableDataContributor'
    | 'tableDataReader'

  @description('Names of containers, queues or tables; what they are, the role tells. Without them the grant is for the whole account.')
  on: string[]?
}
