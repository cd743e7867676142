/** `GET operations/verify?order=`: is what is stored of the order whole and in order? Without an order all of them, as far as the time goes. */
import { app } from "@azure/functions";
import { z } from "zod";
import { verifyAll, verifyOrder } from "../operations/verify.ts";
import { reading } from "./http/endpoint.ts";
import { orderId } from "./http/fields.ts";
import { operation } from "./http/routes.ts";

app.http("operationsVerify", {
  ...operation("verify"),
  authLevel: "function",
  handler: reading(z.strictObject({ order: orderId.optional() }), (context, { order }) =>
    order === undefined ? verifyAll(context) : verifyOrder(context, order),
  ),
});
