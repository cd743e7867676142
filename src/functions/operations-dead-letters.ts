/** `GET operations/dead-letters`: dead letters, grouped by error. */
import { app } from "@azure/functions";
import { z } from "zod";
import { listDeadLetters } from "../operations/dead-letters.ts";
import { reading } from "./http/endpoint.ts";
import { deadLetterFields, orderId } from "./http/fields.ts";
import { operation } from "./http/routes.ts";

const span = z
  .string()
  .regex(/^[0-9]{1,15}$/, "milliseconds are needed")
  .transform(Number)
  .optional();
const query = z.strictObject({ ...deadLetterFields, order: orderId.optional(), olderThanMs: span, youngerThanMs: span });

app.http("operationsDeadLetters", {
  ...operation("dead-letters"),
  authLevel: "function",
  handler: reading(query, async (context, { order, ...filter }) => {
    const { letters, groups, foreign } = await listDeadLetters(context, { ...filter, orderId: order });
    return { letters: letters.map(({ order: _key, ...letter }) => letter), groups, foreign };
  }),
});
