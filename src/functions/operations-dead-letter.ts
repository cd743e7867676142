/** `GET operations/dead-letter?order=&subscription=&event=`: one dead letter, its history and its event. */
import { app } from "@azure/functions";
import { z } from "zod";
import { showDeadLetter } from "../operations/dead-letters.ts";
import { reading } from "./http/endpoint.ts";
import { eventId, orderId, subscription } from "./http/fields.ts";
import { operation } from "./http/routes.ts";

app.http("operationsDeadLetter", {
  ...operation("dead-letter"),
  authLevel: "function",
  handler: reading(z.strictObject({ order: orderId, subscription, event: eventId }), (context, query) =>
    showDeadLetter(context, { orderId: query.order, subscription: query.subscription, id: query.event }),
  ),
});
