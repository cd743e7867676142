metadata name = 'Alerts'
metadata description = 'Who is told, and of what. Each alert names its step in the runbook of the README.'

import { metrics } from 'names.bicep'
import { tagMap } from 'types.bicep'

@description('Beginning of the names of the alerts.')
param namePrefix string

@description('Region of the alerts.')
param location string

@description('Tags of the alerts.')
param tags tagMap

@description('Resource id of the Log Analytics workspace.')
param workspaceId string

@description('Addresses that get an e-mail.')
param emails string[]

@description('False: the rules exist and stay quiet.')
param isEnabled bool

type alert = {
  @description('End of the rule name.')
  name: string

  @description('Title in the portal and in the e-mail.')
  title: string

  @description('Step of the runbook, word for word.')
  runbookStep: string

  @description('0 critical to 4 verbose.')
  severity: 0 | 1 | 2 | 3 | 4

  @description('Gives a row for each thing that is wrong, and none while all is well.')
  query: string

  @description('Column that tells one thing that is wrong from another; each is an alert of its own.')
  splitBy: string?

  @description('How far back the query looks, ISO 8601.')
  window: string
}

// A row is one minute of one process; its value is in `Sum` (the exporter sends no minimum or maximum for counters and gauges). Counters come
// as deltas, so they are added up. A gauge is the same number from every process that sweeps, so its maximum is taken. Telemetry may be
// minutes late, of gauges too: a window that only reached back to the run before would never see the late rows.
var alerts alert[] = [
  {
    name: 'oldest-age'
    title: 'An event has waited for more than 5 minutes'
    runbookStep: '`${metrics.oldestAge}` above 5 minutes'
    severity: 2
    query: $'''
      AppMetrics
      | where Name == '${metrics.oldestAge}'
      | summarize Age = max(Sum) by Subscription = tostring(Properties.subscription), bin(TimeGenerated, 1m)
      | where Age > 300
      | summarize Minutes = count() by Subscription
      | where Minutes >= 5
    '''
    splitBy: 'Subscription'
    window: 'PT10M'
  }
  {
    name: 'unrelayed-age'
    title: 'A commit was not relayed for more than 5 minutes'
    runbookStep: '`${metrics.unrelayedAge}` above 5 minutes'
    severity: 2
    // No subscription has the event yet, so no other rule can see it. The runs go through a big table part by part: once is enough.
    query: $'''
      AppMetrics
      | where Name == '${metrics.unrelayedAge}'
      | summarize Seconds = max(Sum)
      | where Seconds > 300
    '''
    window: 'PT10M'
  }
  {
    name: 'gap'
    title: 'An event is missing: its order stands still'
    runbookStep: '`${metrics.gaps}` increased, or `verify` found damage'
    severity: 1
    query: $'''
      AppMetrics
      | where Name == '${metrics.gaps}'
      | summarize Increase = sum(Sum)
      | where Increase > 0
    '''
    window: 'PT15M'
  }
  {
    name: 'dead-letters'
    title: 'Events became dead letters'
    runbookStep: '`${metrics.dead}` increased'
    severity: 1
    query: $'''
      AppMetrics
      | where Name == '${metrics.dead}'
      | summarize Increase = sum(Sum) by Subscription = tostring(Properties.subscription)
      | where Increase > 0
    '''
    splitBy: 'Subscription'
    window: 'PT15M'
  }
  {
    name: 'failure-rate'
    title: 'More than 20 % of the attempts fail'
    runbookStep: 'Failures above 20 %'
    severity: 2
    // Below 5 attempts a rate says nothing; an event that goes on failing shows in its age.
    query: $'''
      AppMetrics
      | where Name in ('${metrics.failures}', '${metrics.attempts}')
      | summarize Failures = sumif(Sum, Name == '${metrics.failures}'), Attempts = sumif(Sum, Name == '${metrics.attempts}')
          by Subscription = tostring(Properties.subscription)
      | where Attempts >= 5 and Failures > 0.2 * Attempts
    '''
    splitBy: 'Subscription'
    window: 'PT10M'
  }
  {
    name: 'sweep-heartbeat'
    title: 'The sweep does not run'
    runbookStep: 'No `${metrics.sweeps}` for 5 minutes'
    severity: 1
    // A sum over no rows is one row with 0: silence itself is found. 5 minutes, and 5 more that telemetry may be late.
    query: $'''
      AppMetrics
      | where Name == '${metrics.sweeps}'
      | summarize Sweeps = sum(Sum)
      | where Sweeps < 1
    '''
    window: 'PT10M'
  }
]

resource actionGroup 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: '${namePrefix}-operators'
  location: 'global'
  tags: tags
  properties: {
    enabled: true
    groupShortName: 'outbox'
    emailReceivers: [
      for (email, index) in emails: {
        name: 'operator-${index}'
        emailAddress: email
        useCommonAlertSchema: true
      }
    ]
  }
}

resource rules 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = [
  for each in alerts: {
    name: '${namePrefix}-${each.name}'
    location: location
    tags: tags
    kind: 'LogAlert'
    properties: {
      displayName: each.title
      description: 'Runbook in README.md, step: ${each.runbookStep}'
      enabled: isEnabled
      severity: each.severity
      scopes: [workspaceId]
      evaluationFrequency: 'PT5M'
      windowSize: each.window
      // The table is there only once the first telemetry has come.
      skipQueryValidation: true
      autoMitigate: true
      criteria: {
        allOf: [
          {
            query: each.query
            timeAggregation: 'Count'
            operator: 'GreaterThan'
            threshold: 0
            dimensions: empty(each.?splitBy)
              ? []
              : [
                  {
                    name: each.?splitBy ?? ''
                    operator: 'Include'
                    values: ['*']
                  }
                ]
            failingPeriods: {
              numberOfEvaluationPeriods: 1
              minFailingPeriodsToAlert: 1
            }
          }
        ]
      }
      actions: {
        actionGroups: [actionGroup.id]
        customProperties: {
          runbook: each.runbookStep
        }
      }
    }
  }
]
