/** One operation of a table transaction, and the limits that the service (but not the emulator) puts on them. */
import { OutboxError } from "../core/errors.ts";
import { MAX_ENTITY_BYTES, MAX_TRANSACTION_BYTES, MAX_TRANSACTION_OPERATIONS } from "../core/limits.ts";
import type { Etag } from "../core/ports.ts";
import type { OrderKey } from "../core/order-id.ts";
import { propertyBytes, toSdkValue, type Properties } from "./table-value.ts";

/** `insert` fails if the row exists, `replace` if it is not at `etag`; `upsert` and `delete` are unconditional. */
export type RowOperation =
  | { readonly action: "insert"; readonly rowKey: string; readonly properties: Properties }
  | { readonly action: "upsert"; readonly rowKey: string; readonly properties: Properties }
  | { readonly action: "replace"; readonly rowKey: string; readonly etag: Etag; readonly properties: Properties }
  | { readonly action: "delete"; readonly rowKey: string };

/** Request body around each operation: boundaries, headers and the URL without its keys. */
const OPERATION_OVERHEAD_BYTES = 1_000;

/** Refuses a transaction that the service would refuse. Throws `too-large`, naming the limit and the order. */
export function assertTransactionFits(order: OrderKey, operations: readonly RowOperation[]): void {
  const refuse = (what: string, limit: string): never => {
    throw new OutboxError("too-large", `the commit of order ${order} ${what}: at most ${limit}`);
  };
  if (operations.length > MAX_TRANSACTION_OPERATIONS) {
    refuse(`has ${operations.length} operations`, `${MAX_TRANSACTION_OPERATIONS} fit into a transaction`);
  }
  let requestBytes = 0;
  for (const operation of operations) {
    const entityBytes = entityBytesOf(order, operation);
    if (entityBytes > MAX_ENTITY_BYTES)
      refuse(`has ${entityBytes} bytes in row ${operation.rowKey}`, `${MAX_ENTITY_BYTES} fit into an entity`);
    requestBytes += requestBytesOf(order, operation);
  }
  if (requestBytes > MAX_TRANSACTION_BYTES) refuse(`has ${requestBytes} bytes`, `${MAX_TRANSACTION_BYTES} fit into a transaction`);
}

function entityBytesOf(order: OrderKey, operation: RowOperation): number {
  const keys = 4 + 2 * (order.length + operation.rowKey.length);
  if (operation.action === "delete") return keys;
  return Object.entries(operation.properties).reduce((sum, [name, value]) => sum + propertyBytes(name, value), keys);
}

function requestBytesOf(order: OrderKey, operation: RowOperation): number {
  const keysInUrl = encodeURIComponent(order).length + encodeURIComponent(operation.rowKey).length;
  const body = operation.action === "delete" ? 0 : bodyBytes(order, operation);
  return OPERATION_OVERHEAD_BYTES + keysInUrl + body;
}

function bodyBytes(order: OrderKey, { rowKey, properties }: { readonly rowKey: string; readonly properties: Properties }): number {
  const json = JSON.stringify({ order, rowKey, properties }, (_name, value: unknown) => {
    if (typeof value === "bigint") return value.toString();
    if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
    return value;
  });
  // The name and type annotation of a typed property: `"name@odata.type":"Edm.DateTime",`.
  const annotations = Object.entries(properties).reduce(
    (sum, [name, value]) => sum + (typeof value === "string" ? 0 : 30 + 3 * name.length),
    0,
  );
  return Buffer.byteLength(json) + annotations;
}

/** The properties as the SDK takes them. */
export function toSdkProperties(properties: Properties): Record<string, unknown> {
  return Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, toSdkValue(value)]));
}
