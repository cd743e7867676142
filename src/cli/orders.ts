/** `ordered-outbox orders list` and `orders show`: the orders behind the numbers. */
import { Option, type Command } from "commander";
import { parseOrderId } from "../core/order-id.ts";
import { HEAD_STATES, listOrders, type HeadState } from "../operations/orders.ts";
import { unknownOrder } from "../operations/order-trace.ts";
import { showOrder, type ShownEvent } from "../operations/show-order.ts";
import { assertKnown } from "./assert-known.ts";
import { outboxPagesOption, STOPPED_EARLY, subscriptionOption } from "./arguments.ts";
import { addOperation, type OperationOptions } from "./operation.ts";
import { duration, escaped, facts, table } from "./output.ts";

interface ListOptions extends OperationOptions {
  readonly pending?: boolean;
  readonly parked?: boolean;
  readonly blocked?: boolean;
  readonly unrelayed?: boolean;
  readonly missing?: boolean;
  readonly maxPages?: number;
  readonly subscription?: string;
}

/** States that can't be asked for together with this one. */
function others(state: HeadState): string[] {
  return HEAD_STATES.filter((each) => each !== state);
}

export function addOrdersCommands(program: Command): void {
  const orders = program.command("orders").description("orders with pending or unrelayed events, and the timeline of one");
  const list = orders
    .command("list")
    .description("orders with pending or unrelayed events, the oldest first")
    .addOption(new Option("--pending", "only those whose head may run").conflicts(others("pending")))
    .addOption(new Option("--parked", "only those whose head waits for its next attempt").conflicts(others("parked")))
    .addOption(new Option("--blocked", "only those whose head is a dead letter").conflicts(others("blocked")))
    .addOption(
      new Option("--unrelayed", "only those with events that no worker has relayed yet").conflicts([
        ...others("unrelayed"),
        "subscription",
      ]),
    )
    .addOption(
      new Option("--missing", "only those that stand because an event is missing before their oldest one").conflicts(others("missing")),
    )
    .option("--subscription <name>", "only this subscription; leaves out what is not relayed")
    .addOption(outboxPagesOption());
  addOperation<ListOptions>(list, async (context, options) => {
    const { subscription, maxPages } = options;
    const listed = await listOrders(context, { state: stateOf(options), subscription: subscriptionOption(subscription), maxPages });
    if (listed.orders.length === 0) await assertKnown(context, { subscription });
    const rows = listed.orders.map(({ orderId, subscription: name, backlog, head, lease }) => [
      orderId,
      name,
      backlog,
      head.sequence,
      duration(head.ageSeconds),
      head.decision === undefined ? head.state : `${head.state}, ${head.decision.action} decided`,
      head.attempts,
      head.nextAttemptAt,
      lease === "taken" ? "held" : "free",
      escaped(head.lastError),
    ]);
    const headings = ["ORDER", "SUBSCRIPTION", "BACKLOG", "HEAD", "AGE", "STATE", "ATTEMPTS", "NEXT ATTEMPT", "LEASE", "LAST ERROR"];
    const text = rows.length === 0 ? "No such orders." : table(headings, rows);
    return { json: listed, text: listed.complete ? text : `${text}\n\n${STOPPED_EARLY}` };
  });

  const show = orders.command("show").description("every event of an order that storage still knows").argument("<order>", "OrderId");
  addOperation<OperationOptions, [string]>(show, async (context, _options, orderId) => {
    const shown = await showOrder(context, parseOrderId(orderId));
    if (shown.sequence === undefined && shown.timeline.length === 0 && shown.lease === "none") throw unknownOrder(shown.orderId);
    const head = facts({
      Order: shown.orderId,
      "Last event": shown.sequence === undefined ? "its entity is gone" : `${shown.sequence}${shown.deleted ? ", deleted" : ""}`,
      Lease:
        shown.lease === "taken"
          ? `held by ${shown.heldBy ?? "a worker"}${shown.heldSince === undefined ? "" : ` since ${shown.heldSince}`}`
          : "free",
    });
    return { json: shown, text: shown.timeline.length === 0 ? head : `${head}\n\n${timeline(shown.timeline)}` };
  });
}

function timeline(entries: readonly ShownEvent[]): string {
  const headings = [
    "SEQUENCE",
    "TYPE",
    "SUBSCRIPTION",
    "STATE",
    "ATTEMPTS",
    "OCCURRED AT",
    "FINISHED / NEXT ATTEMPT",
    "LAST ERROR",
    "EVENT",
  ];
  const rows = entries.map((entry) => [
    entry.sequence,
    entry.type,
    entry.subscription,
    stateText(entry),
    entry.attempts,
    entry.occurredAt,
    entry.finishedAt ?? entry.nextAttemptAt,
    escaped(entry.lastError),
    entry.id,
  ]);
  return table(headings, rows);
}

function stateText({ state, decision, redrivenAs, redriveOf, replayOf }: ShownEvent): string {
  const what = redrivenAs === undefined ? state : `${state} as ${redrivenAs.sequence}`;
  const notes = [
    ...(redriveOf === undefined ? [] : [`redrive of ${redriveOf.sequence ?? redriveOf.id}`]),
    ...(replayOf === undefined ? [] : [`replay of ${replayOf.sequence ?? replayOf.id}`]),
    ...(decision === undefined ? [] : [`${decision.action} by ${decision.actor}${decision.carriedOut ? "" : ", not carried out yet"}`]),
  ];
  return notes.length === 0 ? what : `${what} (${notes.join("; ")})`;
}

function stateOf(options: ListOptions): HeadState | undefined {
  return HEAD_STATES.find((state) => options[state] === true);
}
