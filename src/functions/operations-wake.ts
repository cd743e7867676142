/** `POST operations/wake`: send a wake-up; one too many does no harm. */
import { app } from "@azure/functions";
import { z } from "zod";
import { wakeOrder } from "../operations/wake.ts";
import { changing } from "./http/endpoint.ts";
import { force, operatorFields, orderId } from "./http/fields.ts";
import { operation } from "./http/routes.ts";

const body = z.strictObject({ order: orderId, force, ...operatorFields });

app.http("operationsWake", {
  ...operation("wake"),
  authLevel: "function",
  handler: changing(body, (context, { order, ...options }, operator) => wakeOrder(context, order, operator, options)),
});
