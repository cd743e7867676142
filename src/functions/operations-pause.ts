/** `POST operations/pause`: start no more events of a subscription, or of one order of it (F5). */
import { app } from "@azure/functions";
import { z } from "zod";
import { pause } from "../operations/pauses.ts";
import { changing } from "./http/endpoint.ts";
import { force, operatorFields, orderId, subscription } from "./http/fields.ts";
import { operation } from "./http/routes.ts";

const body = z.strictObject({ subscription, order: orderId.optional(), force, ...operatorFields });

app.http("operationsPause", {
  ...operation("pause"),
  authLevel: "function",
  handler: changing(body, (context, { subscription: name, order, ...options }, operator) =>
    pause(context, { subscription: name, orderId: order }, operator, options),
  ),
});
