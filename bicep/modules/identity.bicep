metadata name = 'Identity'
metadata description = 'The identity of the function app. Of its own, so that it has its roles before the app exists and keeps them when the app is made anew.'

import { tagMap } from 'types.bicep'

@description('Name of the identity.')
param name string

@description('Region of the identity.')
param location string

@description('Tags of the identity.')
param tags tagMap

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: name
  location: location
  tags: tags
}

@description('Resource id.')
output id string = identity.id

@description('Application id: what the code signs in with.')
output clientId string = identity.properties.clientId

@description('Object id: what roles are given to.')
output principalId string = identity.properties.principalId
