/** JSON that loses nothing: values that `JSON.stringify` would drop or change are refused, and a caller's own JSON text is kept as it is (C6). */
import { OutboxError, printable, type ErrorCode } from "./errors.ts";

/** Deeper values are refused: some readers of the events can't follow them. */
export const MAX_JSON_DEPTH = 100;

/** JSON text that is carried byte for byte: big integers, number spellings, key order and white space stay as they were. See {@link rawJson}. */
export class RawJson {
  readonly text: string;
  /** What `JSON.parse` makes of the text; the schema checks this. */
  readonly value: unknown;

  constructor(text: string, value: unknown) {
    this.text = text;
    this.value = value;
  }
}

/**
 * Marks `json` as ready JSON text to be committed byte for byte.
 *
 * @param json a JSON text, or its UTF-8 bytes. Throws `invalid-event` if it is neither.
 */
export function rawJson(json: string | Uint8Array): RawJson {
  let text: string;
  try {
    text = typeof json === "string" ? json : new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(json);
  } catch (cause) {
    throw new OutboxError("invalid-event", "the raw JSON is not valid UTF-8", { cause });
  }
  if (!text.isWellFormed()) throw new OutboxError("invalid-event", "the raw JSON contains half of a surrogate pair");
  try {
    return new RawJson(text, JSON.parse(text));
  } catch (cause) {
    throw new OutboxError("invalid-event", `the raw JSON can't be parsed: ${printable((cause as Error).message)}`, { cause });
  }
}

/**
 * The JSON text of `value`, which `JSON.parse` turns back into an equal value.
 *
 * Refused with the path of the culprit: NaN, infinities, -0, `undefined`, bigints, functions, symbols, holes, half surrogate pairs,
 * dates, maps and other class instances, cycles, and values nested deeper than {@link MAX_JSON_DEPTH}.
 */
export function serializeJson(value: unknown, path: string, code: ErrorCode): string {
  if (value instanceof RawJson) return value.text;
  assertLossless(value, path, code, []);
  return JSON.stringify(value);
}

function assertLossless(value: unknown, path: string, code: ErrorCode, parents: readonly object[]): void {
  const refuse = (what: string): never => {
    throw new OutboxError(code, `${printable(path)} ${what}`);
  };
  switch (typeof value) {
    case "boolean":
      return;
    case "string":
      if (!value.isWellFormed()) refuse("contains half of a surrogate pair, which storage would replace");
      return;
    case "number":
      if (!Number.isFinite(value)) refuse(`is ${value}, which JSON can't hold: use null or a string`);
      if (Object.is(value, -0)) refuse("is -0, which JSON.stringify turns into 0: use 0 or rawJson");
      return;
    case "bigint":
      refuse("is a bigint, which JSON can't hold exactly: use a string, or rawJson for the digits as they are");
      return;
    case "undefined":
      refuse("is undefined, which JSON drops: leave the property out or use null");
      return;
    case "object":
      break;
    default:
      refuse(`is a ${typeof value}, which JSON drops`);
  }
  if (value === null) return;
  const object = value as object;
  if (parents.includes(object)) refuse("contains itself");
  if (parents.length >= MAX_JSON_DEPTH) refuse(`is nested deeper than ${MAX_JSON_DEPTH} levels`);
  const inner = [...parents, object];
  if (Array.isArray(object)) {
    assertNoToJson(object, refuse);
    for (let index = 0; index < object.length; index++) assertLossless(object[index], `${path}[${index}]`, code, inner);
    if (Object.keys(object).length > object.length) refuse("is an array with properties besides its elements, which JSON drops");
    return;
  }
  if (object instanceof RawJson) refuse("is raw JSON inside another value: rawJson is for the whole of an event's data");
  const prototype: unknown = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null) {
    const name = (prototype as { constructor?: { name?: string } }).constructor?.name ?? "object";
    refuse(`is a ${name}, which JSON changes: convert it to plain data first (a date with toISOString)`);
  }
  assertNoToJson(object, refuse);
  if (Object.getOwnPropertySymbols(object).length > 0) refuse("has a symbol as a key, which JSON drops");
  for (const [key, member] of Object.entries(object)) {
    if (!key.isWellFormed()) refuse("has a key with half of a surrogate pair");
    assertLossless(member, path === "" ? key : `${path}.${key}`, code, inner);
  }
}

/** Own or inherited, enumerable or not: `JSON.stringify` calls it. */
function assertNoToJson(object: object, refuse: (what: string) => never): void {
  if ("toJSON" in object && typeof object.toJSON === "function") refuse("has a toJSON method: convert it to plain data first");
}

/** What is in a text that this package stored. Throws `corrupt`. */
export function parseStoredJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new OutboxError("corrupt", `${what} is not JSON: it was written or changed by something else`, { cause });
  }
}
