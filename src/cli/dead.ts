/** `ordered-outbox dead`: dead letters, one or many (F3, F4). */
import type { Command } from "commander";
import { counted } from "../core/counted.ts";
import { MAX_ERROR_GROUP_LENGTH } from "../core/dead-letter.ts";
import { oneLine, OutboxError, printable } from "../core/errors.ts";
import { assertSubscriptionName } from "../core/names.ts";
import { parseOrderId } from "../core/order-id.ts";
import {
  listDeadLetters,
  showDeadLetter,
  type DeadLetterFilter,
  type ListedDeadLetter,
  type ShownDeadLetter,
} from "../operations/dead-letters.ts";
import { decideMany, decideOrder, discardPending, type DecideManyResult } from "../operations/decide-many.ts";
import type { Operator } from "../operations/context.ts";
import type { DecisionAction, DecisionResult } from "../operations/decide.ts";
import { assertKnown } from "./assert-known.ts";
import { eventIdOption, numberOption, spanOption, subscriptionOption } from "./arguments.ts";
import { EXIT, type ExitStatus } from "./exit.ts";
import {
  addDryRunOption,
  addOperation,
  addOperatorOptions,
  operatorOf,
  progressLog,
  type CommandContext,
  type OperationOptions,
} from "./operation.ts";
import { duration, escaped, facts, MAX_FACT_LENGTH, table } from "./output.ts";

interface FilterOptions {
  readonly subscription?: string;
  readonly type?: string;
  readonly error?: string;
  readonly group?: string;
  readonly olderThan?: number;
  readonly youngerThan?: number;
}

interface OneOptions extends OperationOptions {
  readonly subscription?: string;
  readonly event?: string;
}

interface DecideOptions extends OperationOptions, FilterOptions, OneOptions {
  readonly all?: boolean;
  readonly limit?: number;
  readonly outOfOrder?: boolean;
  readonly pending?: boolean;
}

export function addDeadCommands(program: Command): void {
  const dead = program.command("dead").description("dead letters: look at them, run them again in place, or discard them");
  addList(dead);
  addShow(dead);
  addDecide(dead, "redrive", "run dead letters again at their own place, with fresh attempts; or a parked event now");
  addDecide(
    dead,
    "discard",
    "finish dead letters without handling them, their streams go on; a failed or pending event only with `--event` or `--pending`",
  );
}

const AGE = { min: 0, max: 3_650 * 86_400_000, default: "any age" } as const;

function addFilterOptions(command: Command): Command {
  return command
    .option("--subscription <name>", "only this subscription")
    .option("--type <type>", "only this event type")
    .option("--error <text>", "only if the reason contains this text, in any case")
    .option("--group <text>", "only this group of errors, as `dead list` shows it")
    .addOption(spanOption("--older-than <span>", "only if dead for longer, like 15m, 2h or 7d", AGE))
    .addOption(spanOption("--younger-than <span>", "only if dead for at most this long", AGE));
}

function addList(dead: Command): void {
  const list = dead.command("list").description("dead letters, grouped by error").argument("[order]", "OrderId; default: all orders");
  addOperation<OperationOptions & FilterOptions, [string | undefined]>(addFilterOptions(list), async (context, options, order) => {
    const orderId = order === undefined ? undefined : parseOrderId(order);
    const { letters, groups, foreign } = await listDeadLetters(context, { ...filterOf(options), orderId });
    const json = { letters: letters.map(({ order: _key, ...letter }) => letter), groups, foreign };
    if (letters.length === 0) return { json, text: await nothingFound(context, { ...filterOf(options), orderId }) };
    const overview = table(
      ["COUNT", "ORDERS", "SUBSCRIPTIONS", "ERROR GROUP"],
      groups.map(({ group, count, orders, subscriptions }) => [
        count,
        orders,
        subscriptions.join(","),
        escaped(group, MAX_ERROR_GROUP_LENGTH),
      ]),
    );
    return { json, text: `${letterTable(letters)}\n\n${overview}` };
  });
}

/** Why a listing is empty. A filter that matches nothing must not read like an all-clear. */
async function nothingFound(context: CommandContext, filter: DeadLetterFilter): Promise<string> {
  await assertKnown(context, filter);
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  const all = isFiltered ? (await listDeadLetters(context)).letters.length : 0;
  if (all === 0) return "No dead letters.";
  context.logger.warn("no dead letter matches, although there are some", { deadLetters: all });
  return "No dead letter matches: `ordered-outbox dead list` has those there are.";
}

function letterTable(letters: readonly ListedDeadLetter[]): string {
  return table(
    ["ORDER", "SUBSCRIPTION", "SEQUENCE", "TYPE", "AGE", "ATTEMPTS", "POLICY", "EVENT", "ERROR"],
    letters.map((letter) => [
      letter.orderId,
      letter.subscription,
      letter.sequence,
      letter.type,
      duration(letter.ageMs / 1000),
      letter.attempts,
      letter.policy,
      letter.id,
      escaped(letter.reason),
    ]),
  );
}

function addShow(dead: Command): void {
  const show = dead
    .command("show")
    .description("one dead letter: its history and its event")
    .argument("<order>", "OrderId")
    .option("--subscription <name>", "needed if the order has several")
    .option("--event <id>", "needed if the order has several");
  addOperation<OneOptions, [string]>(show, async (context, options, order) => {
    const filter = {
      orderId: parseOrderId(order),
      subscription: subscriptionOption(options.subscription),
      id: eventIdOption(options.event),
    };
    const { letters } = await listDeadLetters(context, filter);
    const [letter, ...more] = letters;
    if (letter === undefined)
      throw new OutboxError(
        "not-found",
        `order ${printable(order)} has no such dead letter: \`ordered-outbox dead list\` has those there are`,
      );
    if (more.length > 0) {
      throw new OutboxError(
        "invalid-option",
        `order ${printable(order)} has ${counted(letters.length, "dead letter")}: name one with --event and --subscription`,
      );
    }
    const shown = await showDeadLetter(context, letter);
    return { json: shown, text: shownText(shown) };
  });
}

function shownText({ letter, eventText, eventBase64, decision }: ShownDeadLetter): string {
  const head = facts({
    Order: letter.orderId,
    Subscription: letter.subscription,
    Event: `${letter.id}, sequence ${letter.sequence}, type ${letter.type ?? "unknown"}`,
    "Died at": letter.diedAt,
    Reason: escaped(letter.reason, MAX_FACT_LENGTH),
    Attempts: letter.attempts,
    Policy: letter.policy === "skip" ? "skip: the stream has gone on" : "block: the stream waits",
    Decision: decision === undefined ? undefined : `${decision.action} by ${decision.actor} at ${decision.at}: ${decision.reason}`,
  });
  const history = table(
    ["UNTIL", "STARTS", "ERROR"],
    letter.history.map(({ at, starts, error }) => [at, starts, escaped(error)]),
  );
  const content = eventText ?? (eventBase64 === undefined ? "its blob is gone" : `(no UTF-8, base64) ${eventBase64}`);
  return `${head}\n\n${history}\n\n${oneLine(content, Number.POSITIVE_INFINITY)}`;
}

function addDecide(dead: Command, action: DecisionAction, description: string): void {
  const command = addFilterOptions(dead.command(action).description(description))
    .argument("[order]", "OrderId: what waits in this order; without it, the dead letters that the filters find")
    .option("--event <id>", "only this event of the order")
    .option("--all", "all dead letters, without a filter")
    .addOption(
      numberOption("--limit <count>", "decide at most so many; the same command goes on with the rest", {
        min: 1,
        max: 1_000_000_000,
        default: "all",
      }),
    );
  if (action === "redrive") command.option("--out-of-order", "also those that their streams have skipped, after later events");
  if (action === "discard") {
    command.option("--pending", "all pending events of the subscription that --subscription names, as when it is gone from the code");
  }
  addDryRunOption(addOperatorOptions(command, "required"));
  addOperation<DecideOptions, [string | undefined]>(
    command,
    async (context, options, order) => {
      const given = { dryRun: options.dryRun === true, outOfOrder: options.outOfOrder === true };
      const operator = operatorOf(options);
      const filter = filterOf(options);
      if (options.pending === true) {
        const result = await discardAllPending(context, options, order, operator);
        if (result.results.length + result.left === 0) await assertKnown(context, { subscription: options.subscription });
        const none = "No pending event of the subscription: `ordered-outbox status` has those there are.";
        return { ...answer(action, result, given.dryRun, none), ...(context.signal.aborted ? { status: EXIT.aborted } : {}) };
      }
      if (order !== undefined) {
        refuseFilters(options, "is for many orders: leave the order out, or the option");
        const one = {
          orderId: parseOrderId(order),
          subscription: subscriptionOption(options.subscription),
          id: eventIdOption(options.event),
        };
        return answer(action, { results: await decideOrder(context, action, one, operator, given), left: 0 }, given.dryRun);
      }
      if (options.event !== undefined) throw new OutboxError("invalid-option", "--event needs the order");
      if (options.all !== true && Object.values(filter).every((value) => value === undefined)) {
        throw new OutboxError("invalid-option", `name an order, a filter, or --all to ${action} every dead letter`);
      }
      const limit = options.limit === undefined ? {} : { limit: options.limit };
      const onProgress = progressLog(context.logger, `dead letters looked at to ${action}`);
      const result = await decideMany(context, action, filter, operator, { ...given, ...limit, onProgress });
      const none = result.results.length + result.left === 0 ? await nothingFound(context, filter) : undefined;
      return { ...answer(action, result, given.dryRun, none), ...(context.signal.aborted ? { status: EXIT.aborted } : {}) };
    },
    { stoppable: true },
  );
}

function discardAllPending(
  context: CommandContext,
  options: DecideOptions,
  order: string | undefined,
  operator: Operator,
): Promise<DecideManyResult> {
  const { subscription, limit, dryRun = false, pending: _pending, ...rest } = options;
  if (subscription === undefined) throw new OutboxError("invalid-option", "--pending needs --subscription");
  refuseFilters(rest, "is for dead letters: leave it or --pending out");
  if (options.event !== undefined) throw new OutboxError("invalid-option", "--event names one event: leave --pending out");
  assertSubscriptionName(subscription);
  const target = { subscription, orderId: order === undefined ? undefined : parseOrderId(order) };
  const onProgress = progressLog(context.logger, "pending events looked at to discard");
  return discardPending(context, target, operator, { dryRun, onProgress, ...(limit === undefined ? {} : { limit }) });
}

function refuseFilters({ all, limit, type, error, group, olderThan, youngerThan }: DecideOptions, why: string): void {
  const given = { "--all": all, "--limit": limit, "--type": type, "--error": error, "--group": group };
  const strange = Object.entries({ ...given, "--older-than": olderThan, "--younger-than": youngerThan }).find(
    ([, value]) => value !== undefined,
  );
  if (strange !== undefined) throw new OutboxError("invalid-option", `${strange[0]} ${why}`);
}

/**
 * A decision that is in force is a success, whoever made it; so the same command can be repeated. What its stream has skipped is left out by
 * a redrive of something else, and is no failure of it.
 */
function answer(
  action: DecisionAction,
  { results, left }: DecideManyResult,
  dryRun: boolean,
  none = "Nothing to decide about.",
): { readonly json: unknown; readonly text: string; readonly status: ExitStatus } {
  const inForce = ({ outcome, decision }: DecisionResult): boolean =>
    ["recorded", "would-record", "dismissed"].includes(outcome) || (outcome === "already-decided" && decision?.action === action);
  const succeeded = results.filter(inForce).length;
  const skipped = results.filter(({ outcome }) => outcome === "skipped").length;
  const failed = skipped === results.length ? skipped : results.length - succeeded - skipped;
  const rows = results.map(({ orderId, subscription, id, outcome, message }) => [orderId, subscription, id, outcome, escaped(message)]);
  const summary =
    results.length + left === 0
      ? none
      : `${succeeded} of ${results.length} ${dryRun ? "would be " : ""}in force${skippedText(skipped)}${leftText(left, dryRun)}.`;
  const list = rows.length === 0 ? "" : `${table(["ORDER", "SUBSCRIPTION", "EVENT", "OUTCOME", "WHAT"], rows)}\n\n`;
  return { json: { results, left }, text: `${list}${summary}`, status: failed > 0 ? EXIT.failed : left > 0 ? EXIT.aborted : EXIT.ok };
}

function skippedText(skipped: number): string {
  return skipped === 0 ? "" : `, ${skipped} skipped by ${skipped === 1 ? "its stream needs" : "their streams need"} --out-of-order`;
}

function leftText(left: number, dryRun: boolean): string {
  return left === 0 ? "" : `, ${left} not looked at${dryRun ? "" : ": repeat the command"}`;
}

function filterOf({ subscription, type, error, group, olderThan, youngerThan }: FilterOptions): DeadLetterFilter {
  return {
    subscription: subscriptionOption(subscription),
    type,
    errorText: error,
    group,
    olderThanMs: olderThan,
    youngerThanMs: youngerThan,
  };
}
