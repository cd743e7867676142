/** Who has which role on what: as the template gives it (access.test.ts), and as the code needs it (needs.test.ts). Sorted. */
import { CONTAINERS, LEASE_CONTAINER, ORDERS_TABLE, POISON_QUEUE, WAKE_UP_QUEUE } from "../../src/core/names.ts";

/** `role on resource`. */
export type Grant = `${string} on ${string}`;

const ALL_CONTAINERS = [...CONTAINERS, LEASE_CONTAINER];

export const PRODUCER_GRANTS: readonly Grant[] = sorted(
  "Storage Blob Data Contributor on containers/payloads",
  "Storage Blob Data Reader on containers/archive",
  "Storage Blob Data Reader on containers/events",
  "Storage Blob Data Reader on containers/leases",
  `Storage Queue Data Contributor on queues/${WAKE_UP_QUEUE}`,
  `Storage Table Data Contributor on tables/${ORDERS_TABLE}`,
);

export const READER_GRANTS: readonly Grant[] = sorted(
  ...ALL_CONTAINERS.map((container): Grant => `Storage Blob Data Reader on containers/${container}`),
  `Storage Queue Data Reader on queues/${WAKE_UP_QUEUE}`,
  `Storage Queue Data Reader on queues/${POISON_QUEUE}`,
  `Storage Table Data Reader on tables/${ORDERS_TABLE}`,
);

export const OPERATOR_GRANTS: readonly Grant[] = sorted(
  ...ALL_CONTAINERS.map((container): Grant => `Storage Blob Data Contributor on containers/${container}`),
  `Storage Queue Data Contributor on queues/${WAKE_UP_QUEUE}`,
  `Storage Queue Data Reader on queues/${POISON_QUEUE}`,
  `Storage Table Data Contributor on tables/${ORDERS_TABLE}`,
);

function sorted(...grants: readonly Grant[]): readonly Grant[] {
  return grants.toSorted();
}
