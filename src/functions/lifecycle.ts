/** Not a trigger: telemetry of the process, from before its first invocation to its end. */
import { app } from "@azure/functions";
import { stopRunning } from "./app/running.ts";
import { startTelemetry, stopTelemetry } from "./app/start-telemetry.ts";
import { continueTrace } from "./app/trace-context.ts";

app.hook.preInvocation(continueTrace);
app.hook.appTerminate(async () => {
  await stopRunning();
  await stopTelemetry();
});
await startTelemetry(process.env);
