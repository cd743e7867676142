/** `GET operations/orders?state=&subscription=`: orders with pending or unrelayed events, the oldest first. */
import { app } from "@azure/functions";
import { z } from "zod";
import { HEAD_STATES, listOrders } from "../operations/orders.ts";
import { reading } from "./http/endpoint.ts";
import { subscription } from "./http/fields.ts";
import { operation } from "./http/routes.ts";

const query = z.strictObject({ state: z.enum(HEAD_STATES).optional(), subscription: subscription.optional() });

app.http("operationsOrders", {
  ...operation("orders"),
  authLevel: "function",
  handler: reading(query, listOrders),
});
