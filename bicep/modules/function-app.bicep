metadata name = 'Function app'
metadata description = 'Flex Consumption plan and app. Identities only: nothing in here is or reads a key.'

import { settings, wakeUpsFunction } from 'names.bicep'
import { settingMap, tagMap } from 'types.bicep'

@description('Name of the app.')
param name string

@description('Name of its plan; a plan has one app.')
param planName string

@description('Region of both.')
param location string

@description('Tags of both.')
param tags tagMap

@description('Resource id of the identity that the app runs as.')
param identityId string

@description('Application id of that identity.')
param identityClientId string

@description('Name of the storage account.')
param storageAccountName string

@description('Where the deployed package lies.')
param deploymentContainerUrl string

@description('Where telemetry goes.')
param insightsConnectionString string

@description('Version of Node.js.')
param nodeVersion string

@description('Memory of an instance in MB.')
param instanceMemoryMB int

@description('Most instances.')
param maximumInstanceCount int

@description('Instances that always wait for wake-ups; 0 for none.')
param alwaysReadyInstances int

@description('Whether the plan spreads over availability zones.')
param isZoneRedundant bool

@description('Subnet for what the app sends; empty for none.')
param subnetId string

@description('Application (client) id of the Entra application that guards the HTTP functions; empty for function keys only.')
param operationsClientId string

@description('Settings besides those of the template.')
param extraAppSettings settingMap

resource plan 'Microsoft.Web/serverfarms@2025-03-01' = {
  name: planName
  location: location
  tags: tags
  kind: 'functionapp'
  sku: {
    name: 'FC1'
    tier: 'FlexConsumption'
  }
  properties: {
    reserved: true
    zoneRedundant: isZoneRedundant
  }
}

resource app 'Microsoft.Web/sites@2025-03-01' = {
  name: name
  location: location
  tags: union(tags, { 'azd-service-name': 'outbox' })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identityId}': {}
    }
  }
  properties: {
    serverFarmId: plan.id
    httpsOnly: true
    // References to a key vault in app settings are read as this identity.
    keyVaultReferenceIdentity: identityId
    virtualNetworkSubnetId: empty(subnetId) ? null : subnetId
    functionAppConfig: {
      deployment: {
        storage: {
          type: 'blobContainer'
          value: deploymentContainerUrl
          authentication: {
            type: 'UserAssignedIdentity'
            userAssignedIdentityResourceId: identityId
          }
        }
      }
      runtime: {
        name: 'node'
        version: nodeVersion
      }
      scaleAndConcurrency: {
        alwaysReady: alwaysReadyInstances > 0
          ? [
              {
                name: 'function:${wakeUpsFunction}'
                instanceCount: alwaysReadyInstances
              }
            ]
          : []
        instanceMemoryMB: instanceMemoryMB
        maximumInstanceCount: maximumInstanceCount
      }
    }
    siteConfig: {
      ftpsState: 'Disabled'
      http20Enabled: true
      minTlsVersion: '1.2'
    }
  }
}

// All settings are written here and nowhere else: this replaces the whole set at each deployment, so what was set by hand is gone (C41).
// Never an empty AzureWebJobsStorage beside the identity settings: the host takes it for a connection string. No setting tells the package,
// the runtime or its version: Flex Consumption has them in functionAppConfig, so the functions stay listed after a deployment of the template.
resource appSettings 'Microsoft.Web/sites/config@2025-03-01' = {
  parent: app
  name: 'appsettings'
  properties: union(extraAppSettings, {
    // The account name, not addresses of services: with the blob address alone the host sometimes fails to start. Without credential and
    // clientId the scale controller can't look at the queue, and nothing wakes the app.
    AzureWebJobsStorage__accountName: storageAccountName
    AzureWebJobsStorage__credential: 'managedidentity'
    AzureWebJobsStorage__clientId: identityClientId
    // By default the host takes the first 32 characters of the app's name: two apps that agree in them would share their timers (C42).
    AzureFunctionsWebHost__hostid: 'outbox-${uniqueString(resourceGroup().id, name)}'
    APPLICATIONINSIGHTS_CONNECTION_STRING: insightsConnectionString
    APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identityClientId};Authorization=AAD'
    '${settings.account}': storageAccountName
    '${settings.clientId}': identityClientId
  })
}

resource authentication 'Microsoft.Web/sites/config@2025-03-01' = if (!empty(operationsClientId)) {
  parent: app
  name: 'authsettingsV2'
  properties: {
    globalValidation: {
      requireAuthentication: true
      unauthenticatedClientAction: 'Return401'
    }
    httpSettings: {
      requireHttps: true
    }
    identityProviders: {
      azureActiveDirectory: {
        enabled: true
        registration: {
          clientId: operationsClientId
          openIdIssuer: '${environment().authentication.loginEndpoint}${tenant().tenantId}/v2.0'
        }
        validation: {
          allowedAudiences: ['api://${operationsClientId}', operationsClientId]
        }
      }
    }
    platform: {
      enabled: true
    }
  }
}

@description('Name of the app.')
output name string = app.name

@description('Address of the app.')
output url string = 'https://${app.properties.defaultHostName}'
