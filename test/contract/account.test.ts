/** The same suites on a real storage account, for those who set its connection string. */
import { describe, it } from "vitest";
import { ACCOUNT_VARIABLE } from "../support/azurite-storage.ts";
import { connectAccount } from "./account-harness.ts";
import { describeStorage } from "./suites.ts";

const connectionString = process.env[ACCOUNT_VARIABLE];

describe("storage account", () => {
  if (connectionString !== undefined) describeStorage(() => connectAccount(connectionString));
  else it(`runs the contract suites when ${ACCOUNT_VARIABLE} is set`, () => {});
});
