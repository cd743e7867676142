/**
 * Metrics and traces of this process to Application Insights. The host exports requests and logs by itself (`telemetryMode` in host.json); what
 * it can't know are the metrics of this package and the spans inside an invocation.
 */
import { metrics } from "@opentelemetry/api";
import { describeError } from "../../core/errors.ts";
import { invocationLogger } from "./invocation-logger.ts";
import { setting, type Environment } from "./settings.ts";

/** The host gives `appTerminate` 5 s; what runs has had 4 of them. */
const FLUSH_MS = 700;
const DEFAULT_INTERVAL_MS = 60_000;

interface Telemetry {
  shutdown(): Promise<unknown>;
}

let telemetry: Telemetry | undefined;

/** Does nothing without `APPLICATIONINSIGHTS_CONNECTION_STRING`. Never rejects: an app without telemetry is better than none. */
export async function startTelemetry(environment: Environment): Promise<void> {
  const connectionString = setting(environment, "APPLICATIONINSIGHTS_CONNECTION_STRING");
  if (connectionString === undefined) return;
  try {
    telemetry = await connect(connectionString, environment);
  } catch (error) {
    invocationLogger.error("there is no telemetry: APPLICATIONINSIGHTS_CONNECTION_STRING or what belongs to it is wrong", {
      error: describeError(error),
    });
  }
}

/** Sends what is there, within a bounded time. Never rejects. */
export async function stopTelemetry(): Promise<void> {
  if (telemetry === undefined) return;
  const timeIsOver = new Promise<void>((resolve) => setTimeout(resolve, FLUSH_MS).unref());
  await Promise.race([telemetry.shutdown().catch(() => {}), timeIsOver]);
}

async function connect(connectionString: string, environment: Environment): Promise<Telemetry> {
  // Only where there is somebody to send to: these packages take longer to load than the rest of the app.
  const [{ AzureMonitorMetricExporter, AzureMonitorTraceExporter }, metricsSdk, traceSdk, { resourceFromAttributes }] = await Promise.all([
    import("@azure/monitor-opentelemetry-exporter"),
    import("@opentelemetry/sdk-metrics"),
    import("@opentelemetry/sdk-trace-node"),
    import("@opentelemetry/resources"),
  ]);
  const exporter = { connectionString, ...(await credentialOf(environment)) };
  const resource = resourceFromAttributes({
    "service.name": setting(environment, "WEBSITE_SITE_NAME") ?? "ordered-outbox",
    "service.instance.id": setting(environment, "WEBSITE_INSTANCE_ID") ?? String(process.pid),
  });
  const meters = new metricsSdk.MeterProvider({
    resource,
    readers: [
      new metricsSdk.PeriodicExportingMetricReader({
        exporter: new AzureMonitorMetricExporter(exporter),
        exportIntervalMillis: DEFAULT_INTERVAL_MS,
      }),
    ],
  });
  metrics.setGlobalMeterProvider(meters);
  const tracers = new traceSdk.NodeTracerProvider({
    resource,
    spanProcessors: [new traceSdk.BatchSpanProcessor(new AzureMonitorTraceExporter(exporter))],
  });
  tracers.register();
  return { shutdown: () => Promise.all([meters.shutdown(), tracers.shutdown()]) };
}

/** `Authorization=AAD;ClientId=…`, as the host reads it: Entra instead of the key inside the connection string. */
async function credentialOf(
  environment: Environment,
): Promise<{ readonly credential?: import("@azure/identity").ManagedIdentityCredential }> {
  const parts = (setting(environment, "APPLICATIONINSIGHTS_AUTHENTICATION_STRING") ?? "").split(";").map((part) => part.trim().split("="));
  const value = (name: string): string | undefined => parts.find(([key]) => key?.toLowerCase() === name)?.[1];
  if (value("authorization")?.toUpperCase() !== "AAD") return {};
  const { ManagedIdentityCredential } = await import("@azure/identity");
  const clientId = value("clientid");
  return { credential: clientId === undefined ? new ManagedIdentityCredential() : new ManagedIdentityCredential({ clientId }) };
}
