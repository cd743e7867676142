/** The same suites on a real storage account; vitest.config.ts takes this file in when there is one. */
import { describe } from "vitest";
import { ACCOUNT_VARIABLE } from "../support/account-variable.ts";
import { connectAccount } from "./account-harness.ts";
import { describeStorage } from "./suites.ts";

describe("storage account", () => {
  describeStorage(() => connectAccount(process.env[ACCOUNT_VARIABLE] ?? ""));
});
