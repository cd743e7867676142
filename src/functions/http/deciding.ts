/** Redrive and discard by HTTP: of one order, or of all dead letters that a filter finds (F4). */
import type { HttpHandler } from "@azure/functions";
import { z } from "zod";
import type { DecisionAction, DecisionResult } from "../../operations/decide.ts";
import { decideMany, decideOrder, discardPending, type DecideManyResult } from "../../operations/decide-many.ts";
import { changing } from "./endpoint.ts";
import { deadLetterFields, eventId, operatorFields, orderId, subscription } from "./fields.ts";
import { HttpProblem } from "./problem.ts";

const span = z.int().min(0).optional();
const filterFields = z.strictObject({ ...deadLetterFields, olderThanMs: span, youngerThanMs: span });

/** One of the three is named. The rest narrows it down, where it means something. */
const TARGETS = ["order", "filter", "pendingOf"] as const;

const body = z
  .strictObject({
    order: orderId.optional(),
    /** With `order`. */
    subscription: subscription.optional(),
    event: eventId.optional(),
    /** An empty one means every dead letter. */
    filter: filterFields.optional(),
    /** Discard only: all pending events of a subscription, as when it is gone from the code (F10). */
    pendingOf: subscription.optional(),
    /** Not with `order`. */
    limit: z.int().min(1).max(100_000).optional(),
    /** Redrive only. */
    outOfOrder: z.boolean().default(false),
    ...operatorFields,
  })
  .superRefine((value, issues) => {
    const given = TARGETS.filter((name) => value[name] !== undefined);
    if (given.length !== 1) issues.addIssue({ code: "custom", message: `name one of ${TARGETS.join(", ")}` });
    const isOrder = value.order !== undefined;
    const misplaced = isOrder ? (["limit"] as const) : (["subscription", "event"] as const);
    for (const name of misplaced) {
      if (value[name] !== undefined) {
        issues.addIssue({ code: "custom", path: [name], message: isOrder ? "is for many orders" : "needs the order" });
      }
    }
  });

/** Answers 409 when there was something to decide about and nothing came of it: `results` says why. */
export function deciding(action: DecisionAction): HttpHandler {
  return changing(body, async (context, { order, filter, pendingOf, limit, dryRun, outOfOrder, ...narrow }, operator) => {
    if (action === "redrive" && pendingOf !== undefined) throw new HttpProblem(422, "wrong body: pendingOf: is for discard");
    if (action === "discard" && outOfOrder) throw new HttpProblem(422, "wrong body: outOfOrder: is for redrive");
    const many = { dryRun, ...(limit === undefined ? {} : { limit }) };
    let result: DecideManyResult;
    if (order !== undefined) {
      const one = { orderId: order, subscription: narrow.subscription, id: narrow.event };
      result = { results: await decideOrder(context, action, one, operator, { dryRun, outOfOrder }), left: 0 };
    } else if (pendingOf !== undefined) {
      result = await discardPending(context, { subscription: pendingOf }, operator, many);
    } else {
      result = await decideMany(context, action, filter ?? {}, operator, { ...many, outOfOrder });
    }
    const { results } = result;
    if (results.length > 0 && !results.some((each) => isInForce(each, action))) {
      throw new HttpProblem(409, "nothing was changed: the results say why", { members: { ...result } });
    }
    return result;
  });
}

/** A decision that is in force is a success, whoever made it: so the same request can be repeated. */
function isInForce({ outcome, decision }: DecisionResult, action: DecisionAction): boolean {
  return ["recorded", "would-record", "dismissed"].includes(outcome) || (outcome === "already-decided" && decision?.action === action);
}
