import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Schema } from "../../src/core/schema.ts";
import { validate } from "../../src/core/schema.ts";
import type { StoredEvent } from "../../src/core/event.ts";
import { MAX_SUBSCRIPTIONS } from "../../src/core/progress.ts";
import { assertSubscriptions, defineSubscription, defineWorkflow } from "../../src/core/workflow.ts";
import { thrown } from "./support.ts";

const workflow = defineWorkflow({
  name: "shipment",
  state: z.object({ status: z.string() }),
  events: { "shipment.instructed": z.object({ n: z.number() }), "shipment.delivered": z.object({}) },
});
const handle = (): void => undefined;
const event = (type: string): StoredEvent => ({ type }) as StoredEvent;

describe("workflows", () => {
  test("the source is /name unless given", () => {
    expect(workflow.source).toBe("/shipment");
    expect(defineWorkflow({ ...workflow, source: "https://example.org/s" }).source).toBe("https://example.org/s");
  });

  test.each(["", "Shipment", "a b", "a--b", "-a", "a/b"])("the name %j is refused", (name) => {
    expect(thrown(() => defineWorkflow({ ...workflow, name }))).toMatchObject({ code: "invalid-option" });
  });

  test.each(["", "a b", "a\n", "caf\u00E9", "x".repeat(201)])("the event type %j is refused", (type) => {
    expect(thrown(() => defineWorkflow({ ...workflow, events: { [type]: z.object({}) } }))).toMatchObject({ code: "invalid-option" });
  });
});

describe("subscriptions", () => {
  test("one without a filter wants every event, one with types or a predicate wants those", () => {
    const all = defineSubscription(workflow, { name: "all", handle });
    const some = defineSubscription(workflow, { name: "some", events: ["shipment.instructed"], handle });
    const few = defineSubscription(workflow, {
      name: "few",
      events: ["shipment.instructed"],
      when: ({ type }) => type.length > 100,
      handle,
    });
    const none = defineSubscription(workflow, { name: "none", events: [], handle });
    const wanted = (type: string): boolean[] => [all, some, few, none].map((subscription) => subscription.wants(event(type)));
    expect(wanted("shipment.instructed")).toEqual([true, true, false, false]);
    expect(wanted("shipment.delivered")).toEqual([true, false, false, false]);
  });

  test("a type that the workflow does not declare is refused, names of Object.prototype too", () => {
    for (const type of ["shipment.lost", "toString", "__proto__"]) {
      expect(thrown(() => defineSubscription(workflow, { name: "a", events: [type as "shipment.delivered"], handle }))).toMatchObject({
        code: "unknown-event-type",
      });
    }
  });

  test("doubled names and too many subscriptions are refused", () => {
    const named = (name: string) => defineSubscription(workflow, { name, handle });
    expect(thrown(() => assertSubscriptions(workflow, [named("a"), named("b"), named("a")]))).toMatchObject({ code: "invalid-option" });
    const many = Array.from({ length: MAX_SUBSCRIPTIONS + 1 }, (_, index) => named(`s${index}`));
    expect(thrown(() => assertSubscriptions(workflow, many))).toMatchObject({ code: "invalid-option" });
    expect(() => assertSubscriptions(workflow, many.slice(1))).not.toThrow();
  });

  test("G6: no subscription at all, and subscriptions of another workflow, are refused", () => {
    const foreign = defineSubscription(defineWorkflow({ name: "other", state: z.object({}), events: { e: z.object({}) } }), {
      name: "a",
      handle,
    });
    expect(thrown(() => assertSubscriptions(workflow, []))).toMatchObject({ code: "invalid-option" });
    expect(thrown(() => assertSubscriptions(workflow, [foreign]))).toMatchObject({ code: "invalid-option" });
  });
});

describe("validation", () => {
  test("the message names paths and never quotes values", async () => {
    const schema = z.object({ card: z.object({ number: z.number() }) });
    const error: unknown = await validate(schema, { card: { number: "4111-secret" } }, "the data", "invalid-event").catch(
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({ code: "invalid-event" });
    expect((error as Error).message).toContain("card.number");
    expect((error as Error).message).not.toContain("secret");
  });

  test("at most five issues are listed, and an asynchronous schema is awaited", async () => {
    const many: Schema = {
      "~standard": {
        version: 1,
        vendor: "test",
        validate: async () => ({ issues: Array.from({ length: 7 }, (_, n) => ({ message: `issue ${n}`, path: [{ key: n }] })) }),
      },
    };
    const error: unknown = await validate(many, 1, "the data", "invalid-event").catch((reason: unknown) => reason);
    expect((error as Error).message).toContain("4: issue 4 (and 2 more)");
  });
});
