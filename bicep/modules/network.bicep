metadata name = 'Network'
metadata description = 'A virtual network in which the function app reaches the storage account through private endpoints.'

import { tagMap } from 'types.bicep'

@description('Name of the virtual network.')
param name string

@description('Region of the network.')
param location string

@description('Tags of everything in it.')
param tags tagMap

@description('Address range; two subnets of /24 are cut out of it.')
param addressPrefix string

@description('Name of the storage account that is to be reached.')
param storageAccountName string

var services = ['blob', 'queue', 'table']

resource account 'Microsoft.Storage/storageAccounts@2025-06-01' existing = {
  name: storageAccountName
}

resource network 'Microsoft.Network/virtualNetworks@2024-07-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    addressSpace: {
      addressPrefixes: [addressPrefix]
    }
    subnets: [
      {
        name: 'app'
        properties: {
          addressPrefix: cidrSubnet(addressPrefix, 24, 0)
          // What Flex Consumption asks for; the provider Microsoft.App must be registered in the subscription.
          delegations: [
            {
              name: 'functions'
              properties: {
                serviceName: 'Microsoft.App/environments'
              }
            }
          ]
        }
      }
      {
        name: 'endpoints'
        properties: {
          addressPrefix: cidrSubnet(addressPrefix, 24, 1)
          privateEndpointNetworkPolicies: 'Disabled'
        }
      }
    ]
  }

  resource appSubnet 'subnets' existing = {
    name: 'app'
  }

  resource endpointSubnet 'subnets' existing = {
    name: 'endpoints'
  }
}

resource zones 'Microsoft.Network/privateDnsZones@2024-06-01' = [
  for service in services: {
    name: 'privatelink.${service}.${environment().suffixes.storage}'
    location: 'global'
    tags: tags
  }
]

resource links 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2024-06-01' = [
  for (service, index) in services: {
    parent: zones[index]
    name: name
    location: 'global'
    tags: tags
    properties: {
      registrationEnabled: false
      virtualNetwork: {
        id: network.id
      }
    }
  }
]

// One after another: a subnet takes one change at a time.
@batchSize(1)
resource endpoints 'Microsoft.Network/privateEndpoints@2024-07-01' = [
  for service in services: {
    name: '${name}-${service}'
    location: location
    tags: tags
    properties: {
      privateLinkServiceConnections: [
        {
          name: service
          properties: {
            groupIds: [service]
            privateLinkServiceId: account.id
          }
        }
      ]
      subnet: {
        id: network::endpointSubnet.id
      }
    }
  }
]

resource zoneGroups 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2024-07-01' = [
  for (service, index) in services: {
    parent: endpoints[index]
    name: 'default'
    properties: {
      privateDnsZoneConfigs: [
        {
          name: service
          properties: {
            privateDnsZoneId: zones[index].id
          }
        }
      ]
    }
  }
]

@description('Subnet that the function app is put in.')
output appSubnetId string = network::appSubnet.id

@description('Resource id of the network, for peering with those of producers and operators.')
output networkId string = network.id
