metadata name = 'Monitoring'
metadata description = 'Log Analytics and Application Insights, which takes telemetry from the identity of the app only.'

import { builtInRoles } from 'roles.bicep'
import { tagMap } from 'types.bicep'

@description('Name of the Log Analytics workspace.')
param workspaceName string

@description('Name of the Application Insights component.')
param insightsName string

@description('Region of both.')
param location string

@description('Tags of both.')
param tags tagMap

@description('Days that telemetry is kept.')
param retentionDays int

@description('Most telemetry a day in GB; -1 for no limit.')
param dailyQuotaGb int

@description('Object id of the identity that sends telemetry.')
param publisherPrincipalId string

resource workspace 'Microsoft.OperationalInsights/workspaces@2025-02-01' = {
  name: workspaceName
  location: location
  tags: tags
  properties: {
    features: {
      disableLocalAuth: true
      enableLogAccessUsingOnlyResourcePermissions: true
    }
    retentionInDays: retentionDays
    sku: {
      name: 'PerGB2018'
    }
    workspaceCapping: {
      dailyQuotaGb: dailyQuotaGb
    }
  }
}

resource insights 'Microsoft.Insights/components@2020-02-02' = {
  name: insightsName
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    DisableLocalAuth: true
    WorkspaceResourceId: workspace.id
  }
}

resource publisher 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  scope: insights
  name: guid(insights.id, publisherPrincipalId, builtInRoles.monitoringMetricsPublisher)
  properties: {
    principalId: publisherPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId(
      'Microsoft.Authorization/roleDefinitions',
      builtInRoles.monitoringMetricsPublisher
    )
  }
}

@description('Resource id of the workspace, which alerts ask.')
output workspaceId string = workspace.id

@description('Where telemetry goes. No secret: without the role nothing is taken.')
output connectionString string = insights.properties.ConnectionString
