/** Timer: wakes orders with pending events that nobody handles, and reports the gauges (design §7). */
import { app } from "@azure/functions";
import { onTick } from "./app/tick.ts";

app.timer("sweep", {
  schedule: "0 * * * * *",
  handler: onTick(async ({ sweeper }, options, logger) => {
    const { woken, marked, leased, wokenBefore } = await sweeper.sweep(options);
    if (woken > 0) logger.info("the sweep woke orders that nobody handled", { woken, marked, leased, wokenBefore });
  }),
});
