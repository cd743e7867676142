/** Timer: removes what is finished and older than its retention (F7). Not at the full hour, when everybody's timers fire. */
import { app } from "@azure/functions";
import { onTick } from "./app/tick.ts";

app.timer("cleanup", {
  schedule: "0 17 * * * *",
  handler: onTick(async ({ cleaner }, options, logger) => {
    const { removed, foreign, complete } = await cleaner.clean(options);
    logger.info("cleanup ended", { ...removed, foreign, complete });
  }),
});
