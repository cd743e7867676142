/** `GET operations/explain?order=`: why an order does not move. */
import { app } from "@azure/functions";
import { z } from "zod";
import { explain } from "../operations/explain.ts";
import { reading } from "./http/endpoint.ts";
import { orderId } from "./http/fields.ts";
import { HttpProblem } from "./http/problem.ts";
import { operation } from "./http/routes.ts";

app.http("operationsExplain", {
  ...operation("explain"),
  authLevel: "function",
  handler: reading(z.strictObject({ order: orderId }), async (context, { order }, { workflow, subscriptions }) => {
    const explanation = await explain(context, order, { deployed: { workflow, subscriptions } });
    if (explanation.verdict.code === "order-unknown") throw new HttpProblem(404, explanation.verdict.sentence);
    return explanation;
  }),
});
