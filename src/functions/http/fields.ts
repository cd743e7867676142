/** What parameters and bodies are made of. Values that pass are of the types that the operations take. */
import { z } from "zod";
import { describeError } from "../../core/errors.ts";
import { isEventId, type EventId } from "../../core/event-id.ts";
import { assertSubscriptionName } from "../../core/names.ts";
import { parseOrderId, type OrderId } from "../../core/order-id.ts";

type Field<Value> = z.ZodPipe<z.ZodString, z.ZodTransform<Value, string>>;

/** A field that `parse` accepts; what it throws becomes the issue. */
function field<Value>(parse: (text: string) => Value): Field<Value> {
  return z.string().transform((text, issues) => {
    try {
      return parse(text);
    } catch (error) {
      issues.addIssue({ code: "custom", message: describeError(error) });
      return z.NEVER;
    }
  });
}

export const orderId: Field<OrderId> = field(parseOrderId);

export const subscription: Field<string> = field((text) => {
  assertSubscriptionName(text);
  return text;
});

export const eventId: Field<EventId> = field((text) => {
  if (!isEventId(text)) throw new Error("an event id (ULID) is needed");
  return text;
});

const text = z.string().min(1).max(500).optional();

/** Which dead letters, as far as texts can say. */
export const deadLetterFields: {
  readonly subscription: z.ZodOptional<Field<string>>;
  readonly type: z.ZodOptional<z.ZodString>;
  readonly errorText: z.ZodOptional<z.ZodString>;
  readonly group: z.ZodOptional<z.ZodString>;
} = { subscription: subscription.optional(), type: text, errorText: text, group: text };

/** Also for names that storage knows nothing of. */
export const force: z.ZodDefault<z.ZodBoolean> = z.boolean().default(false);

/** Who asks for a change besides the principal, why, and whether it is only to be tried. Blank texts are refused by the audit log. */
export const operatorFields: {
  readonly reason: z.ZodString;
  readonly actor: z.ZodOptional<z.ZodString>;
  readonly dryRun: z.ZodDefault<z.ZodBoolean>;
} = { reason: z.string().min(1).max(500), actor: z.string().min(1).max(60).optional(), dryRun: z.boolean().default(false) };
