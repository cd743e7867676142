import { describe, inject } from "vitest";
import { connectAccount } from "./account-harness.ts";
import { describeStorage } from "./suites.ts";

describe("Azurite", () => {
  describeStorage(() => connectAccount(inject("azurite")));
});
