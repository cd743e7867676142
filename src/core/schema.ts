/** Validation through Standard Schema (https://standardschema.dev): zod, valibot, arktype and others implement it. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { describeError, OutboxError, printable, type ErrorCode } from "./errors.ts";

export type Schema<Input = unknown, Output = Input> = StandardSchemaV1<Input, Output>;
export type InputOf<S extends Schema> = StandardSchemaV1.InferInput<S>;
export type OutputOf<S extends Schema> = StandardSchemaV1.InferOutput<S>;

/** How many issues of a refused value a message names. */
const MAX_ISSUES = 5;

/** The schema's output for `value`. Throws `code` with the paths that are wrong; the values themselves are never quoted. */
export async function validate<S extends Schema>(schema: S, value: unknown, what: string, code: ErrorCode): Promise<OutputOf<S>> {
  let result: StandardSchemaV1.Result<OutputOf<S>>;
  try {
    result = await schema["~standard"].validate(value);
  } catch (cause) {
    throw new OutboxError(code, `${what} can't be checked: its schema throws ${describeError(cause)}`, { cause });
  }
  if (result.issues === undefined) return result.value;
  const issues = result.issues.slice(0, MAX_ISSUES).map(({ path, message }) => `${pathText(path)}${printable(message)}`);
  const more = result.issues.length > MAX_ISSUES ? ` (and ${result.issues.length - MAX_ISSUES} more)` : "";
  throw new OutboxError(code, `${what} does not match its schema: ${issues.join("; ")}${more}`);
}

function pathText(path: StandardSchemaV1.Issue["path"]): string {
  if (path === undefined || path.length === 0) return "";
  const keys = path.map((segment) => String(typeof segment === "object" ? segment.key : segment));
  return `${printable(keys.join("."))}: `;
}
