/** `POST operations/resume`: let what is paused go on (F5). */
import { app } from "@azure/functions";
import { z } from "zod";
import { resume } from "../operations/pauses.ts";
import { changing } from "./http/endpoint.ts";
import { operatorFields, orderId, subscription } from "./http/fields.ts";
import { operation } from "./http/routes.ts";

const body = z.strictObject({ subscription, order: orderId.optional(), ...operatorFields });

app.http("operationsResume", {
  ...operation("resume"),
  authLevel: "function",
  handler: changing(body, (context, { subscription: name, order, dryRun }, operator) =>
    resume(context, { subscription: name, orderId: order }, operator, { dryRun }),
  ),
});
