/** `GET operations/orders?state=&subscription=`: orders with pending events, the oldest first. */
import { app } from "@azure/functions";
import { z } from "zod";
import { listOrders } from "../operations/orders.ts";
import { reading } from "./http/endpoint.ts";
import { subscription } from "./http/fields.ts";
import { operation } from "./http/routes.ts";

const query = z.strictObject({ state: z.enum(["pending", "parked", "blocked"]).optional(), subscription: subscription.optional() });

app.http("operationsOrders", {
  ...operation("orders"),
  authLevel: "function",
  handler: reading(query, async (context, filter) => ({ orders: await listOrders(context, filter) })),
});
