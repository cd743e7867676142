import { describe, expect, test } from "vitest";
import { assertTimeoutsFit, FUNCTION_TIMEOUT_MS, ROUND_MARGIN_MS } from "../../src/functions/app/function-timeout.ts";
import { accountSetting, numberSetting, type Environment } from "../../src/functions/app/settings.ts";
import { defineSubscription } from "../../src/core/workflow.ts";
import { shipmentWorkflow } from "../../src/shipment/workflow.ts";

describe("the account", () => {
  test.each<[Environment, unknown]>([
    [{ AzureWebJobsStorage__accountName: "acct" }, { accountName: "acct" }],
    [{ ORDERED_OUTBOX_ACCOUNT: "acct", AzureWebJobsStorage__accountName: "acct" }, { accountName: "acct" }],
    [
      { AzureWebJobsStorage__accountName: "acct", AzureWebJobsStorage__clientId: "host" },
      { accountName: "acct", clientId: "host" },
    ],
    [
      { ORDERED_OUTBOX_ACCOUNT: "acct", ORDERED_OUTBOX_CLIENT_ID: "own", AzureWebJobsStorage__clientId: "host" },
      { accountName: "acct", clientId: "own" },
    ],
    [{ AzureWebJobsStorage: "UseDevelopmentStorage=true" }, { connectionString: "UseDevelopmentStorage=true" }],
    [{ ORDERED_OUTBOX_CONNECTION_STRING: "A", AzureWebJobsStorage: "A" }, { connectionString: "A" }],
    // Deployments leave it behind, empty.
    [{ AzureWebJobsStorage: "", AzureWebJobsStorage__accountName: "acct" }, { accountName: "acct" }],
  ])("%j", (environment, expected) => {
    expect(accountSetting(environment)).toEqual(expected);
  });

  test.each<[Environment, string]>([
    [{}, "no storage account: set AzureWebJobsStorage__accountName"],
    [
      { ORDERED_OUTBOX_ACCOUNT: "a", AzureWebJobsStorage__accountName: "b" },
      "ORDERED_OUTBOX_ACCOUNT and AzureWebJobsStorage__accountName differ",
    ],
    [
      { ORDERED_OUTBOX_CONNECTION_STRING: "secret-1", AzureWebJobsStorage: "secret-2" },
      "ORDERED_OUTBOX_CONNECTION_STRING and AzureWebJobsStorage differ",
    ],
    [{ AzureWebJobsStorage: "secret-1", ORDERED_OUTBOX_ACCOUNT: "a" }, "AzureWebJobsStorage and ORDERED_OUTBOX_ACCOUNT are both set"],
  ])("%j is refused, without a word of a secret", (environment, message) => {
    const attempt = (): unknown => accountSetting(environment);
    expect(attempt).toThrow(message);
    expect(attempt).not.toThrow("secret");
  });
});

test("numbers: digits or nothing", () => {
  expect(numberSetting({ N: "15000" }, "N")).toBe(15_000);
  expect(numberSetting({ N: "" }, "N")).toBeUndefined();
  for (const text of ["1e3", "-1", "1.5", " 1", "0x10"])
    expect(() => numberSetting({ N: text }, "N")).toThrow("the setting N is no whole number");
});

describe("handler timeouts", () => {
  const longest = FUNCTION_TIMEOUT_MS - ROUND_MARGIN_MS - 240_000;
  const subscription = (retry: { timeoutMs: number }, ofType = retry): ReturnType<typeof defineSubscription> =>
    defineSubscription(shipmentWorkflow, { name: "slow", retry, retryByType: { "shipment.returned": ofType }, handle() {} });

  test("fit functionTimeout beside the time budget of a round", () => {
    expect(() => assertTimeoutsFit([subscription({ timeoutMs: longest })], 240_000)).not.toThrow();
  });

  test("are refused beyond it, of single types too", () => {
    const message = `subscription slow: timeoutMs is ${longest + 1}: at most ${longest} fits functionTimeout`;
    expect(() => assertTimeoutsFit([subscription({ timeoutMs: longest + 1 })], 240_000)).toThrow(message);
    expect(() => assertTimeoutsFit([subscription({ timeoutMs: 10 }, { timeoutMs: longest + 1 })], 240_000)).toThrow(message);
  });
});
