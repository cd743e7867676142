import { describe, expect, it } from "vitest";
import { RestError, createPipelineRequest } from "@azure/core-rest-pipeline";
import { OutboxError, type ErrorCode } from "../../src/core/errors.ts";
import { storageError } from "../../src/storage/storage-error.ts";

/** The shapes of facts §0.3, each with its code where the SDK puts it. */
const SHAPES: ReadonlyArray<readonly [name: string, make: (status: number, code: string) => RestError]> = [
  ["a single table call", (status, code) => withDetails(new RestError("x", { statusCode: status }), { odataError: { code } })],
  ["a table transaction", (status, code) => new RestError("0:x", { statusCode: status, code })],
  ["a blob or queue call", (status, code) => withDetails(new RestError("x", { statusCode: status, code }), { errorCode: code })],
  ["a HEAD request", (status, code) => withDetails(new RestError("x", { statusCode: status }), { errorCode: code })],
];

const ANSWERS: ReadonlyArray<readonly [status: number, serviceCode: string, code: ErrorCode]> = [
  [400, "InvalidInput", "storage"],
  [400, "MessageTooLarge", "too-large"],
  [400, "PropertyValueTooLarge", "too-large"],
  [400, "EntityTooLarge", "too-large"],
  [401, "NoAuthenticationInformation", "forbidden"],
  [403, "AuthorizationPermissionMismatch", "forbidden"],
  [404, "BlobNotFound", "not-found"],
  [404, "TableNotFound", "not-found"],
  [408, "RequestTimeout", "unavailable"],
  [409, "BlobAlreadyExists", "already-exists"],
  [409, "EntityAlreadyExists", "already-exists"],
  [409, "ContainerBeingDeleted", "unavailable"],
  [409, "LeaseAlreadyPresent", "lease-taken"],
  [409, "LeaseIsBreakingAndCannotBeAcquired", "lease-taken"],
  [409, "LeaseIdMismatchWithLeaseOperation", "lease-lost"],
  [409, "LeaseNotPresentWithLeaseOperation", "lease-lost"],
  [409, "LeaseIsBrokenAndCannotBeRenewed", "lease-lost"],
  [409, "BlobArchived", "storage"],
  [412, "ConditionNotMet", "precondition-failed"],
  [412, "UpdateConditionNotSatisfied", "precondition-failed"],
  [412, "LeaseIdMismatchWithBlobOperation", "lease-lost"],
  [412, "LeaseNotPresentWithBlobOperation", "lease-lost"],
  [412, "LeaseLost", "lease-lost"],
  [412, "LeaseIdMissing", "lease-lost"],
  [413, "RequestBodyTooLarge", "too-large"],
  [429, "TooManyRequests", "unavailable"],
  [500, "OperationTimedOut", "unavailable"],
  [503, "ServerBusy", "unavailable"],
];

describe("storageError", () => {
  const cases = SHAPES.flatMap(([shape, make]) =>
    ANSWERS.map(([status, serviceCode, code]) => ({ shape, make, status, serviceCode, code })),
  );
  it.each(cases)("$shape answered $status $serviceCode is $code", ({ make, status, serviceCode, code }) => {
    const cause = make(status, serviceCode);
    const error = storageError(cause, "read order o-1");
    expect(error).toMatchObject({ code, cause, details: { status, serviceCode } });
    expect(error.message).toBe(`${code}: read order o-1: the service answered ${status} ${serviceCode}`);
  });

  it("an answer without a code goes by its status", () => {
    expect(storageError(new RestError("x", { statusCode: 412 }), "x")).toMatchObject({
      code: "precondition-failed",
      details: { status: 412 },
    });
    expect(storageError(new RestError("x", { statusCode: 502 }), "x").code).toBe("unavailable");
    expect(storageError(new RestError("x", { statusCode: 409 }), "x").code).toBe("storage");
  });

  const network = [
    "ECONNRESET",
    "ECONNREFUSED",
    "ENOTFOUND",
    "EPIPE",
    "EAI_AGAIN",
    "ETIMEDOUT",
    "REQUEST_SEND_ERROR",
    "PARSE_ERROR",
    "ERR_SSL_WRONG_VERSION_NUMBER",
  ];
  it.each(network)("no answer, %s, is unavailable", (code) => {
    expect(storageError(new RestError("x", { code }), "x").code).toBe("unavailable");
    expect(storageError(Object.assign(new Error("x"), { code }), "x").code).toBe("unavailable");
  });

  const credentials: ReadonlyArray<readonly [name: string, fields: object, code: ErrorCode]> = [
    ["AuthenticationError", { statusCode: 400 }, "forbidden"],
    ["AuthenticationError", { statusCode: 503 }, "unavailable"],
    ["CredentialUnavailableError", {}, "forbidden"],
    ["AggregateAuthenticationError", {}, "forbidden"],
  ];
  it.each(credentials)("a credential's %s %j is %s", (name, fields, code) => {
    expect(storageError(Object.assign(new Error("x"), fields, { name }), "x").code).toBe(code);
  });

  it.each([undefined, null, "text", 5, new TypeError("x"), {}])("anything else, %s, is storage and keeps its cause", (thrown) => {
    expect(storageError(thrown, "x")).toMatchObject({ code: "storage", cause: thrown });
  });

  it("an OutboxError passes through", () => {
    const error = new OutboxError("timeout", "x");
    expect(storageError(error, "y")).toBe(error);
  });

  it("a port's own reading comes first", () => {
    const cause = new RestError("x", { statusCode: 404, code: "BlobNotFound" });
    expect(storageError(cause, "x", ({ status }) => (status === 404 ? "lease-lost" : undefined)).code).toBe("lease-lost");
    expect(storageError(cause, "x", () => undefined).code).toBe("not-found");
  });

  it("tells which operation of a transaction was refused", () => {
    const request = createPipelineRequest({ url: "https://account.example.net/$batch" });
    const cause = new RestError("2:The specified entity already exists.", { statusCode: 409, code: "EntityAlreadyExists", request });
    expect(storageError(cause, "x").details).toEqual({ status: 409, serviceCode: "EntityAlreadyExists", operationIndex: 2 });
  });

  it("its message quotes neither the SDK's message nor a URL", () => {
    const request = createPipelineRequest({ url: "https://account.example.net/?sig=secret" });
    const error = storageError(new RestError("https://account.example.net/?sig=secret", { statusCode: 403, request }), "x");
    expect(error.message).not.toContain("secret");
  });
});

function withDetails(error: RestError, details: object): RestError {
  error.details = details;
  return error;
}
