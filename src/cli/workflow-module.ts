/** Loads the application's module with its workflow and subscriptions. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { OutboxError, printable } from "../core/errors.ts";
import { assertSubscriptions, type AnyWorkflow, type Subscription } from "../core/workflow.ts";

export interface WorkflowModule {
  readonly workflow: AnyWorkflow;
  readonly subscriptions: readonly Subscription[];
}

/**
 * @param specifier path of a file, or name of a package; both as seen from `directory`
 * @throws `invalid-option` if it can't be loaded or does not export `workflow` (of `defineWorkflow`) and `subscriptions` (a list of what
 *   `defineSubscription` returns)
 */
export async function loadWorkflowModule(specifier: string, directory: string): Promise<WorkflowModule> {
  let exports: Record<string, unknown>;
  try {
    exports = (await import(resolveModule(specifier, directory))) as Record<string, unknown>;
  } catch (cause) {
    throw new OutboxError("invalid-option", `the workflow module ${printable(specifier)} can't be loaded`, { cause });
  }
  const { workflow, subscriptions } = exports;
  const refuse = (what: string): never => {
    throw new OutboxError("invalid-option", `the workflow module ${printable(specifier)} ${what}`);
  };
  if (workflow === undefined) refuse("does not export `workflow`");
  if (!isWorkflow(workflow)) return refuse("exports a `workflow` that is not the result of defineWorkflow");
  if (subscriptions === undefined) refuse("does not export `subscriptions`");
  if (!Array.isArray(subscriptions)) return refuse("exports `subscriptions` that are no array");
  const strange = subscriptions.findIndex((subscription) => !isSubscription(subscription));
  if (strange >= 0) refuse(`exports \`subscriptions\` whose element ${strange} is not the result of defineSubscription`);
  assertSubscriptions(workflow, subscriptions as readonly Subscription[]);
  return { workflow, subscriptions: subscriptions as readonly Subscription[] };
}

function resolveModule(specifier: string, directory: string): string {
  const path = resolve(directory, specifier);
  if (existsSync(path) || specifier.startsWith(".")) return pathToFileURL(path).href;
  try {
    return pathToFileURL(createRequire(`${directory}${sep}`).resolve(specifier)).href;
  } catch {
    // Packages that only `import` may load are found from here: ordered-outbox is installed beside them.
    return specifier;
  }
}

function isWorkflow(value: unknown): value is AnyWorkflow {
  return (
    isObject(value) &&
    typeof value["name"] === "string" &&
    typeof value["source"] === "string" &&
    isObject(value["state"]) &&
    isObject(value["events"])
  );
}

function isSubscription(value: unknown): value is Subscription {
  return (
    isObject(value) &&
    typeof value["name"] === "string" &&
    isWorkflow(value["workflow"]) &&
    typeof value["wants"] === "function" &&
    typeof value["handle"] === "function"
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}
