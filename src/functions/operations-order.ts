/** `GET operations/order?order=`: every event of an order that storage still knows. */
import { app } from "@azure/functions";
import { z } from "zod";
import { showOrder } from "../operations/show-order.ts";
import { reading } from "./http/endpoint.ts";
import { orderId } from "./http/fields.ts";
import { HttpProblem } from "./http/problem.ts";
import { operation } from "./http/routes.ts";

app.http("operationsOrder", {
  ...operation("order"),
  authLevel: "function",
  handler: reading(z.strictObject({ order: orderId }), async (context, { order }) => {
    const shown = await showOrder(context, order);
    if (shown.sequence === undefined && shown.timeline.length === 0) throw new HttpProblem(404, "there is no such order");
    return shown;
  }),
});
