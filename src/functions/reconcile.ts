/** Timer: wakes orders whose committed events nobody relays, a bounded part of the table a tick (C4). Apart from the sweep by half a minute. */
import { app } from "@azure/functions";
import { onTick } from "./app/tick.ts";

app.timer("reconcile", {
  schedule: "30 * * * * *",
  handler: onTick(async ({ reconciler }, options) => {
    await reconciler.reconcile(options);
  }),
});
