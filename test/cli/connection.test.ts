import { describe, expect, test } from "vitest";
import { resolveConnection } from "../../src/cli/connection.ts";

const SECRET = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net";

describe("which account a command works on", () => {
  test.each([
    { name: "our own variable", options: {}, environment: { ORDERED_OUTBOX_CONNECTION_STRING: "ours" }, expected: "ours" },
    { name: "that of Azure Functions", options: {}, environment: { AzureWebJobsStorage: "functions" }, expected: "functions" },
    {
      name: "ours before that of Functions",
      options: {},
      environment: { AzureWebJobsStorage: "functions", ORDERED_OUTBOX_CONNECTION_STRING: "ours" },
      expected: "ours",
    },
    {
      name: "an empty one counts as not set",
      options: {},
      environment: { AzureWebJobsStorage: "functions", ORDERED_OUTBOX_CONNECTION_STRING: "" },
      expected: "functions",
    },
    {
      name: "the one that the option names",
      options: { connectionStringEnv: "MINE" },
      environment: { MINE: "mine", ORDERED_OUTBOX_CONNECTION_STRING: "ours" },
      expected: "mine",
    },
  ])("connection string: $name", async ({ options, environment, expected }) => {
    expect(await resolveConnection(options, environment)).toEqual({ connectionString: expected });
  });

  test.each([
    { name: "the option, before any variable", options: { account: "acc" }, environment: { ORDERED_OUTBOX_CONNECTION_STRING: "ours" } },
    {
      name: "our variable, before that of Functions",
      options: {},
      environment: { ORDERED_OUTBOX_ACCOUNT: "acc", AzureWebJobsStorage: "functions" },
    },
  ])("account name: $name", async ({ options, environment }) => {
    const connection = await resolveConnection(options, environment);
    expect(connection).toMatchObject({ accountName: "acc" });
    expect("credential" in connection && connection.credential).toHaveProperty("getToken", expect.any(Function));
  });

  test("nothing set, or both options, is bad usage", async () => {
    await expect(resolveConnection({}, {})).rejects.toMatchObject({
      code: "invalid-option",
      message: expect.stringContaining("ORDERED_OUTBOX_CONNECTION_STRING") as unknown,
    });
    await expect(resolveConnection({ account: "a", connectionStringEnv: "B" }, { B: "x" })).rejects.toMatchObject({
      code: "invalid-option",
    });
  });

  test("a connection string given in place of a variable's name is not printed", async () => {
    const refused = resolveConnection({ connectionStringEnv: SECRET }, {});
    await expect(refused).rejects.toMatchObject({ code: "invalid-option", message: expect.not.stringContaining("c2VjcmV0") as unknown });
  });
});
