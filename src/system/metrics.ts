/**
 * What can be watched, through OpenTelemetry. Without a MeterProvider in the application nothing is recorded and nothing is paid.
 *
 * The README's table of metrics and alarms is made from {@link METRICS}.
 */
import { metrics, type Counter, type Gauge, type Histogram, type Meter, type MeterProvider } from "@opentelemetry/api";

type Kind = "gauge" | "counter" | "histogram";

export interface MetricInfo<K extends Kind = Kind> {
  readonly kind: K;
  /** UCUM. */
  readonly unit: string;
  readonly meaning: string;
  readonly attributes: readonly string[];
  /** When to tell somebody; empty if a dashboard is enough. */
  readonly alarm: string;
}

type GaugeName =
  | "outbox_pending_count"
  | "outbox_oldest_age"
  | "outbox_parked_count"
  | "outbox_blocked_count"
  | "outbox_dead_count"
  | "outbox_backlog_orders"
  | "outbox_unrelayed_oldest_age";
type CounterName =
  | "outbox_publish_success_total"
  | "outbox_publish_failure_total"
  | "outbox_dead_total"
  | "outbox_gap_total"
  | "outbox_attempts_total"
  | "outbox_wakeups_without_work_total"
  | "outbox_storage_calls_total"
  | "outbox_sweep_total";
type HistogramName = "outbox_handler_duration";
export type MetricName = GaugeName | CounterName | HistogramName;

/**
 * Every instrument. Gauges come from the sweep, and the one of unrelayed events from the reconcile: processes report the same things, or, of a big
 * table, parts that overlap; so take their maximum, not their sum.
 */
export const METRICS: Readonly<
  Record<GaugeName, MetricInfo<"gauge">> & Record<CounterName, MetricInfo<"counter">> & Record<HistogramName, MetricInfo<"histogram">>
> = {
  outbox_pending_count: {
    kind: "gauge",
    unit: "{event}",
    meaning: "Relayed events that are not finished, parked and blocked ones included",
    attributes: ["subscription"],
    alarm: "grows for 15 minutes",
  },
  outbox_oldest_age: {
    kind: "gauge",
    unit: "s",
    meaning: "How long the oldest pending event has waited since its commit; parked and blocked events count",
    attributes: ["subscription"],
    alarm: "above 300 for 5 minutes",
  },
  outbox_parked_count: {
    kind: "gauge",
    unit: "{order}",
    meaning: "Orders whose oldest event waits for its next attempt",
    attributes: ["subscription"],
    alarm: "above 10 for 15 minutes: the endpoint is probably down",
  },
  outbox_blocked_count: {
    kind: "gauge",
    unit: "{order}",
    meaning: "Orders whose oldest event is a dead letter that waits for a human",
    attributes: ["subscription"],
    alarm: "above 0",
  },
  outbox_dead_count: {
    kind: "gauge",
    unit: "{event}",
    meaning: "Dead letters, those that the stream has skipped included",
    attributes: ["subscription"],
    alarm: "above 0",
  },
  outbox_backlog_orders: {
    kind: "gauge",
    unit: "{order}",
    meaning: "Orders with pending events of any subscription",
    attributes: [],
    alarm: "",
  },
  outbox_unrelayed_oldest_age: {
    kind: "gauge",
    unit: "s",
    meaning: "How long the oldest event that no round has relayed yet has waited since its commit, in the part of the table last looked at",
    attributes: [],
    alarm: "above 300",
  },
  outbox_publish_success_total: {
    kind: "counter",
    unit: "{event}",
    meaning: "Handler starts that ended well",
    attributes: ["subscription", "type"],
    alarm: "",
  },
  outbox_publish_failure_total: {
    kind: "counter",
    unit: "{attempt}",
    meaning: "Handler starts that failed",
    attributes: ["subscription", "type"],
    alarm: "above 20 % of outbox_attempts_total for 10 minutes",
  },
  outbox_dead_total: {
    kind: "counter",
    unit: "{event}",
    meaning: "Events that became dead letters",
    attributes: ["subscription"],
    alarm: "any increase",
  },
  outbox_gap_total: {
    kind: "counter",
    unit: "{round}",
    meaning: "Rounds that found an event missing, or its order restored, and left the events after it alone",
    attributes: [],
    alarm: "any increase",
  },
  outbox_attempts_total: {
    kind: "counter",
    unit: "{attempt}",
    meaning: "Handler starts that ended, well or not",
    attributes: ["subscription", "type"],
    alarm: "",
  },
  outbox_wakeups_without_work_total: {
    kind: "counter",
    unit: "{wakeup}",
    meaning: "Rounds that found nothing to do",
    attributes: [],
    alarm: "",
  },
  outbox_storage_calls_total: {
    kind: "counter",
    unit: "{call}",
    meaning: "HTTP requests to the storage account, repeats included: what the outbox costs",
    attributes: ["service", "operation", "price_class"],
    alarm: "twice the usual rate for an hour",
  },
  outbox_sweep_total: {
    kind: "counter",
    unit: "{sweep}",
    meaning: "Sweeps that came to their end: the heartbeat of everything that heals by itself, and of the gauges",
    attributes: [],
    alarm: "no increase for 5 minutes",
  },
  outbox_handler_duration: {
    kind: "histogram",
    unit: "s",
    meaning: "Time a handler took, failed starts included",
    attributes: ["subscription", "type"],
    alarm: "95th percentile above half of the handler's timeout",
  },
};

const METER = "ordered-outbox";
/** Seconds; handlers take from milliseconds to the hour that their timeout may be. */
const DURATION_BOUNDARIES = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600];

/**
 * Instruments by name, made when first used. An instrument belongs to the provider of its time for good, and the API has no stand-in that would
 * pass values on later: the application may set its provider after this module was loaded, tests set several.
 */
let instruments = new Map<MetricName, Counter | Gauge | Histogram>();
let instrumentsOf: MeterProvider | undefined;

function instrument<Instrument extends Counter | Gauge | Histogram>(name: MetricName, make: (meter: Meter) => Instrument): Instrument {
  const provider = metrics.getMeterProvider();
  if (provider !== instrumentsOf) {
    instruments = new Map();
    instrumentsOf = provider;
  }
  const made = (instruments.get(name) as Instrument | undefined) ?? make(provider.getMeter(METER));
  instruments.set(name, made);
  return made;
}

export function counter(name: CounterName): Counter {
  return instrument(name, (meter) => meter.createCounter(name, settings(name)));
}

export function gauge(name: GaugeName): Gauge {
  return instrument(name, (meter) => meter.createGauge(name, settings(name)));
}

export function histogram(name: HistogramName): Histogram {
  const advice = { explicitBucketBoundaries: DURATION_BOUNDARIES };
  return instrument(name, (meter) => meter.createHistogram(name, { ...settings(name), advice }));
}

function settings(name: MetricName): { readonly description: string; readonly unit: string } {
  return { description: METRICS[name].meaning, unit: METRICS[name].unit };
}

/** What workers report. None of it throws. */
export interface WorkerMetrics {
  /** A handler start ended. `dead`: it failed, and it was the last one; {@link eventDied} is reported besides. */
  attemptEnded(attempt: {
    readonly subscription: string;
    readonly type: string;
    readonly outcome: "handled" | "failed" | "dead";
    readonly durationMs: number;
  }): void;
  /** A round ended. `handled`: events it finished. */
  roundEnded(round: { readonly status: string; readonly handled: number }): void;
  /** An event became a dead letter, by a failed start or by crashes. */
  eventDied(event: { readonly subscription: string }): void;
  /** A round found an event missing: nothing after it runs, and only a human can help (W3). */
  gapFound(): void;
}

export const workerMetrics: WorkerMetrics = {
  attemptEnded({ subscription, type, outcome, durationMs }) {
    const attributes = { subscription, type };
    counter("outbox_attempts_total").add(1, attributes);
    counter(outcome === "handled" ? "outbox_publish_success_total" : "outbox_publish_failure_total").add(1, attributes);
    histogram("outbox_handler_duration").record(durationMs / 1000, attributes);
  },
  roundEnded({ status, handled }) {
    if (status === "done" && handled === 0) counter("outbox_wakeups_without_work_total").add(1);
  },
  eventDied({ subscription }) {
    counter("outbox_dead_total").add(1, { subscription });
  },
  gapFound() {
    counter("outbox_gap_total").add(1);
  },
};

/** For `connectStorage({ onCall })`. */
export function recordStorageCall(call: { readonly service: string; readonly operation: string; readonly priceClass: string }): void {
  counter("outbox_storage_calls_total").add(1, { service: call.service, operation: call.operation, price_class: call.priceClass });
}
