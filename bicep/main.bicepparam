// What `azd up` deploys. Further settings of an environment: `azd env set ALERT_EMAIL …`, or write them here.
using 'main.bicep'

param environmentName = readEnvironmentVariable('AZURE_ENV_NAME', 'outbox')
param location = readEnvironmentVariable('AZURE_LOCATION', 'westeurope')
param alertEmails = filter([readEnvironmentVariable('ALERT_EMAIL', '')], email => !empty(email))
