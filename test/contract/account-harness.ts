/** The harness of an account, emulated or real: other programs are played by plain SDK clients. */
import { TableClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { LEASE_CONTAINER, ORDERS_TABLE } from "../../src/core/names.ts";
import { connectTestStorage, endLease } from "../support/azurite-storage.ts";
import type { Harness } from "./harness.ts";

export async function connectAccount(connectionString: string): Promise<Harness> {
  const storage = await connectTestStorage({ connectionString });
  const table = TableClient.fromConnectionString(connectionString, `${storage.prefix}${ORDERS_TABLE}`, { allowInsecureConnection: true });
  const leases = BlobServiceClient.fromConnectionString(connectionString).getContainerClient(`${storage.prefix}-${LEASE_CONTAINER}`);
  return {
    storage,
    putForeignRow: async (partitionKey, rowKey, properties) =>
      void (await table.upsertEntity({ partitionKey, rowKey, ...properties }, "Replace")),
    breakLease: (order) => endLease(storage, order, connectionString),
    deleteLeaseBlob: async (order) => {
      await endLease(storage, order, connectionString);
      await leases.deleteBlob(order);
    },
  };
}
