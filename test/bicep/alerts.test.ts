/** Alerts ask for metrics that the code emits, and name a step of the runbook. */
import { readFileSync } from "node:fs";
import { beforeAll, describe, expect, test } from "vitest";
import { METRICS, type MetricName } from "../../src/system/metrics.ts";
import { deployed, NO_CLI, WHY_SKIPPED, ofType, theOnly, type Resource } from "./template.ts";

const README = readFileSync(new URL("../../README.md", import.meta.url), "utf8");

describe.skipIf(NO_CLI)(`alerts${WHY_SKIPPED}`, () => {
  let resources: readonly Resource[];
  let rules: ReadonlyMap<string, Resource>;
  beforeAll(async () => {
    resources = await deployed({ alertEmails: ["one@example.com", "two@example.com"] });
    const prefix = "outbox-test-";
    rules = new Map(ofType(resources, "Microsoft.Insights/scheduledQueryRules").map((rule) => [rule.name.slice(prefix.length), rule]));
  });

  function queryOf(rule: Resource): string {
    const { allOf } = rule.properties.criteria;
    expect(allOf).toHaveLength(1);
    // A row for each thing that is wrong.
    expect(allOf[0]).toMatchObject({ timeAggregation: "Count", operator: "GreaterThan", threshold: 0 });
    return allOf[0].query as string;
  }

  /** Names of metrics that a query compares with. */
  function metricsIn(query: string): readonly string[] {
    const comparisons = [...query.matchAll(/\bName (?:==|in) (\([^)]*\)|'[^']*')/g)].map((match) => match[1]!);
    return [...new Set(comparisons.flatMap((text) => [...text.matchAll(/'([^']*)'/g)].map((match) => match[1]!)))].sort();
  }

  test("look at these metrics, which the code emits", () => {
    const seen = [...rules].map(([name, rule]) => [name, metricsIn(queryOf(rule))]);
    expect(Object.fromEntries(seen)).toEqual({
      "oldest-age": ["outbox_oldest_age"],
      "unrelayed-age": ["outbox_unrelayed_oldest_age"],
      gap: ["outbox_gap_total"],
      "dead-letters": ["outbox_dead_total"],
      "failure-rate": ["outbox_attempts_total", "outbox_publish_failure_total"],
      "sweep-heartbeat": ["outbox_sweep_total"],
    } satisfies Record<string, readonly MetricName[]>);
    for (const name of seen.flatMap(([, names]) => names)) expect(Object.keys(METRICS)).toContain(name);
  });

  test("are there for every alarm of the README's table of metrics, or the README says why not", () => {
    const section = README.slice(README.indexOf("## Metrics and alarms"), README.indexOf("## Runbook"));
    const suggested = [...section.matchAll(/^\| `(\w+)`.*\| *([^|]*?) *\|$/gm)].filter(([, , alarm]) => alarm !== "").map((row) => row[1]!);
    expect(suggested).toContain("outbox_gap_total");
    const list = section.slice(section.indexOf("has a rule for each of these alarms, except:"));
    const excepted = [...list.matchAll(/^- `(\w+)`: \S+ \S+/gm)].map((line) => line[1]!);
    // A rate is a failure count by an attempt count; the latter has no alarm of its own.
    const ruled = [...rules.values()].flatMap((rule) => metricsIn(queryOf(rule))).filter((name) => name !== "outbox_attempts_total");
    expect([...ruled, ...excepted].toSorted()).toEqual(suggested.toSorted());
  });

  test("add counters up, which come as deltas, and take the maximum of gauges", () => {
    for (const rule of rules.values()) {
      const query = queryOf(rule);
      const kinds = new Set(metricsIn(query).map((name) => METRICS[name as MetricName].kind));
      expect(kinds.size).toBe(1);
      const aggregations = [...query.matchAll(/\b(\w+)\(Sum\b/g)].map((match) => match[1]);
      expect(new Set(aggregations)).toEqual(new Set(kinds.has("gauge") ? ["max"] : query.includes("sumif") ? ["sumif"] : ["sum"]));
    }
  });

  test("split by attributes that the metrics have", () => {
    for (const rule of rules.values()) {
      const query = queryOf(rule);
      const used = [...query.matchAll(/\bProperties\.(\w+)/g)].map((match) => match[1]!);
      for (const metric of metricsIn(query)) expect(METRICS[metric as MetricName].attributes).toEqual(expect.arrayContaining(used));
      const { dimensions } = rule.properties.criteria.allOf[0];
      expect(dimensions.map(({ name }: { readonly name: string }) => name)).toEqual(used.length > 0 ? ["Subscription"] : []);
    }
  });

  test("go off where the table of metrics says so", () => {
    const limits = {
      "oldest-age": ["outbox_oldest_age", "where Age > 300", "above 300 for 5 minutes"],
      "unrelayed-age": ["outbox_unrelayed_oldest_age", "Seconds > 300", "above 300"],
      gap: ["outbox_gap_total", "Increase > 0", "any increase"],
      "dead-letters": ["outbox_dead_total", "Increase > 0", "any increase"],
      "failure-rate": ["outbox_publish_failure_total", "Failures > 0.2 * Attempts", "above 20 % of outbox_attempts_total for 10 minutes"],
      "sweep-heartbeat": ["outbox_sweep_total", "Sweeps < 1", "no increase for 5 minutes"],
    } as const;
    for (const [name, [metric, condition, alarm]] of Object.entries(limits)) {
      expect(queryOf(rules.get(name)!)).toContain(condition);
      expect(METRICS[metric].alarm).toBe(alarm);
    }
    expect(Object.keys(limits)).toEqual([...rules.keys()]);
    expect(queryOf(rules.get("oldest-age")!)).toContain("Minutes >= 5");
    expect(rules.get("gap")!.properties.severity).toBe(1);
  });

  test("find silence: the heartbeat's query gives a row when there are none", () => {
    // A sum by something over no rows is no row; without `by` it is one row with 0.
    expect(queryOf(rules.get("sweep-heartbeat")!)).toMatch(/\| summarize Sweeps = sum\(Sum\)\n/);
  });

  test("name their step of the runbook", () => {
    const steps = [...README.slice(README.indexOf("## Runbook")).matchAll(/^- \*\*(.+?)\*\*/gm)].map((match) => match[1]);
    for (const { properties } of rules.values()) {
      const step = properties.actions.customProperties.runbook;
      expect(steps).toContain(step);
      expect(properties.description).toBe(`Runbook in README.md, step: ${step}`);
    }
  });

  test("see telemetry that is late: windows reach back further than the run before", () => {
    const minutes = (duration: string): number => Number(/^PT(\d+)M$/.exec(duration)?.[1]);
    for (const [name, { properties }] of rules) {
      const overlap = minutes(properties.windowSize) - minutes(properties.evaluationFrequency);
      expect(overlap, `of ${name}`).toBeGreaterThanOrEqual(5);
    }
  });

  test("tell everybody who is to be told, and can be quiet", async () => {
    const group = theOnly(resources, "Microsoft.Insights/actionGroups");
    expect(group.properties.groupShortName.length).toBeLessThanOrEqual(12);
    const addresses = group.properties.emailReceivers.map(({ emailAddress }: { readonly emailAddress: string }) => emailAddress);
    expect(addresses).toEqual(["one@example.com", "two@example.com"]);
    const workspace = theOnly(resources, "Microsoft.OperationalInsights/workspaces").id;
    for (const { properties } of rules.values()) {
      expect(properties).toMatchObject({ enabled: true, scopes: [workspace], actions: { actionGroups: [group.id] } });
    }
  });

  test("take telemetry from the app's identity only", () => {
    expect(theOnly(resources, "Microsoft.Insights/components").properties.DisableLocalAuth).toBe(true);
  });
});
