// Everything that production is likely to want, as an example: copy it, then replace ids and addresses (README, "Deploy to Azure").
using '../main.bicep'

param environmentName = 'prod'
param storageSkuName = 'Standard_ZRS'
param isZoneRedundant = true
param alwaysReadyInstances = 2
// Closes the account: the command line and producers reach it from the network only. Leave it out to begin with.
param isPrivate = true
param telemetryRetentionDays = 90
param alertEmails = ['outbox-operators@example.com']
param tags = {
  owner: 'shipment-team'
}

param producers = [
  // The object id of an application's identity: az identity show --name … --resource-group … --query principalId
  { id: '00000000-0000-0000-0000-000000000002', type: 'ServicePrincipal' }
]
param operatorReaders = [
  { id: '00000000-0000-0000-0000-000000000003', type: 'Group' }
]
param operators = [
  { id: '00000000-0000-0000-0000-000000000001', type: 'Group' }
]

// All settings that the template does not make itself. What is set by hand is gone with the next deployment. For the second deployment:
// the app's identity, which the first one makes, needs a role on the key vault.
// param extraAppSettings = {
//   ORDERED_OUTBOX_WEBHOOK_NOTIFY_URL: 'https://notify.example.com/shipments'
//   ORDERED_OUTBOX_WEBHOOK_NOTIFY_SECRET: '@Microsoft.KeyVault(VaultName=my-vault;SecretName=notify-secret)'
// }
