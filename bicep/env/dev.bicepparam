// A small one to try things on: no instance that waits, nobody is woken by an alert.
using '../main.bicep'

param environmentName = 'dev'
param areAlertsEnabled = false
param softDeleteDays = 1
param telemetryDailyQuotaGb = 1

param operators = [
  // The object id of a group: az ad group show --group <name> --query id
  { id: '00000000-0000-0000-0000-000000000001', type: 'Group' }
]
