import { describeApplicationRows } from "./application-rows.suite.ts";
import { describeBlobs } from "./blobs.suite.ts";
import type { Connect } from "./harness.ts";
import { describeOrderLeases } from "./order-leases.suite.ts";
import { describeOrdersTable } from "./orders-table.suite.ts";
import { describeScans } from "./scans.suite.ts";
import { describeSingleRows } from "./single-rows.suite.ts";
import { describeWakeUpQueue } from "./wake-up-queue.suite.ts";

/** Everything that ports.ts promises, for one storage. */
export function describeStorage(connect: Connect): void {
  describeOrdersTable(connect);
  describeApplicationRows(connect);
  describeSingleRows(connect);
  describeScans(connect);
  describeWakeUpQueue(connect);
  describeOrderLeases(connect);
  describeBlobs(connect);
}
