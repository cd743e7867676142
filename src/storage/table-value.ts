/**
 * Property values as the table keeps them. What it would drop or change is refused before any request (C6, C25): the SDK drops `undefined`,
 * `null`, NaN and infinities without a word, turns -0 into 0, and renames properties called `timestamp` or `rowKey`.
 */
import { OutboxError, printable } from "../core/errors.ts";
import type { TableValue } from "../core/ports.ts";

/** A string property holds at most this many UTF-16 units. */
const MAX_STRING_UNITS = 32_768;
/** A binary property holds at most this many bytes. */
const MAX_BINARY_BYTES = 65_536;
/** An entity holds at most this many properties besides its keys and timestamp. */
const MAX_PROPERTIES = 252;
const MAX_NAME_LENGTH = 255;
/** The table starts its calendar in 1601. */
const MIN_TIME = Date.UTC(1601, 0, 1);
const MAX_TIME = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
const INT64 = 2n ** 63n;

/** Lower-cased: names the service or the SDK keeps for itself, and one that JavaScript does. */
const RESERVED_NAMES: ReadonlySet<string> = new Set(["partitionkey", "rowkey", "timestamp", "etag", "__proto__"]);

export type Properties = Readonly<Record<string, TableValue>>;

/**
 * Checks the properties of a row. `where` names the row in messages, such as `row lines:1 of order o-1`.
 * Throws `invalid-state`, or `too-large` for more than {@link MAX_PROPERTIES} properties.
 */
export function assertProperties(properties: Readonly<Record<string, unknown>>, where: string): asserts properties is Properties {
  const names = Object.keys(properties);
  if (names.length > MAX_PROPERTIES) {
    throw new OutboxError("too-large", `${where} has ${names.length} properties, at most ${MAX_PROPERTIES} are allowed`);
  }
  for (const name of names) {
    const fault = faultOfName(name) ?? faultOfValue(properties[name]);
    if (fault !== undefined) throw new OutboxError("invalid-state", `property ${printable(name, 60)} of ${where} ${fault}`);
  }
}

function faultOfName(name: string): string | undefined {
  if (RESERVED_NAMES.has(name.toLowerCase())) return "has a reserved name";
  if (name.length > MAX_NAME_LENGTH) return `has a name of ${name.length} characters, at most ${MAX_NAME_LENGTH} are allowed`;
  if (!/^[\p{L}_][\p{L}\p{Nd}_]*$/u.test(name))
    return "has a name that is no identifier: letters, digits and _ are allowed, no digit first";
  return undefined;
}

function faultOfValue(value: unknown): string | undefined {
  if (typeof value === "boolean") return undefined;
  if (typeof value === "string") return faultOfText(value);
  if (typeof value === "number") return faultOfNumber(value);
  if (typeof value === "bigint") return value < -INT64 || value >= INT64 ? "is outside the range of Int64" : undefined;
  if (typeof value === "object") return faultOfObject(value);
  return `is ${typeof value}, which the table can't hold: leave the property out`;
}

function faultOfText(value: string): string | undefined {
  if (!value.isWellFormed()) return "contains half of a surrogate pair, which storage would replace";
  return value.length > MAX_STRING_UNITS ? `has ${value.length} UTF-16 units, at most ${MAX_STRING_UNITS} are allowed` : undefined;
}

function faultOfNumber(value: number): string | undefined {
  if (!Number.isFinite(value)) return `is ${value}, which the table can't hold`;
  return Object.is(value, -0) ? "is -0, which the table turns into 0" : undefined;
}

function faultOfObject(value: object | null): string | undefined {
  if (value === null) return "is null, which the table drops: leave the property out";
  if (value instanceof Date) {
    const time = value.getTime();
    if (Number.isNaN(time)) return "is an invalid date";
    return time < MIN_TIME || time > MAX_TIME ? "is a date outside the years 1601 to 9999" : undefined;
  }
  if (value instanceof Uint8Array) {
    return value.length > MAX_BINARY_BYTES ? `has ${value.length} bytes, at most ${MAX_BINARY_BYTES} are allowed` : undefined;
  }
  return "is an object: serialise it, or spread it over properties";
}

/** The value as the SDK takes it. Every number goes as a Double, so that 5 and 1e21 come back as they were. */
export function toSdkValue(value: TableValue): unknown {
  if (typeof value === "number") return { type: "Double", value };
  return value;
}

/** The value as the SDK gave it; undefined for what no {@link TableValue} can be. */
export function fromSdkValue(value: unknown): TableValue | undefined {
  if (value instanceof Uint8Array) return new Uint8Array(value);
  if (value instanceof Date) return value;
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return value;
  return typeof value === "object" ? textOfTyped(value) : undefined;
}

/** Types of other writers that JavaScript has no value for, a Guid for one, arrive as `{ type, value }`. */
function textOfTyped(value: object | null): string | undefined {
  const text = value !== null && "value" in value ? value.value : undefined;
  return typeof text === "string" ? text : undefined;
}

/** Bytes that a property counts against the limit of an entity: 8, its name and its value; strings count two bytes a unit. */
export function propertyBytes(name: string, value: TableValue): number {
  const head = 8 + 2 * name.length;
  if (typeof value === "string") return head + 4 + 2 * value.length;
  if (value instanceof Uint8Array) return head + 4 + value.length;
  return head + (typeof value === "boolean" ? 1 : 8);
}
