/**
 * The border where errors of the storage SDKs become ours, by status and service code, never by message text.
 *
 * The SDKs put the service code in three places: `code` (blobs, queues, table transactions), `details.errorCode` (blobs and queues, the only
 * one for HEAD requests) and `details.odataError.code` (single table calls).
 */
import { OutboxError, type ErrorCode } from "../core/errors.ts";

/** What the service said. */
export interface ServiceAnswer {
  readonly status: number;
  /** Undefined if the answer had no code: some proxies and load balancers in front of the service answer by themselves. */
  readonly serviceCode: string | undefined;
}

/** A port's own reading of an answer; undefined leaves it to the general table. */
export type AnswerReader = (answer: ServiceAnswer) => ErrorCode | undefined;

/** For create-only blobs: the service says 409 or, where it looks at the condition first, 412. */
export const readExistingBlob: AnswerReader = ({ status, serviceCode }) =>
  serviceCode === "BlobAlreadyExists" || status === 412 ? "already-exists" : undefined;

const TOO_LARGE: ReadonlySet<string> = new Set([
  "EntityTooLarge",
  "MessageTooLarge",
  "PropertyValueTooLarge",
  "RequestBodyTooLarge",
  "TooManyProperties",
]);
const LEASE_TAKEN: ReadonlySet<string> = new Set(["LeaseAlreadyPresent", "LeaseIsBreakingAndCannotBeAcquired"]);

/** Converts whatever a storage call threw. An {@link OutboxError} passes through. */
export function storageError(error: unknown, what: string, read?: AnswerReader): OutboxError {
  if (error instanceof OutboxError) return error;
  const answer = answerOf(error);
  if (answer === undefined) return new OutboxError(codeWithoutAnswer(error), `${what}: ${nameOf(error)}`, { cause: error });
  const { status, serviceCode } = answer;
  const operationIndex = operationIndexOf(error);
  return new OutboxError(read?.(answer) ?? codeOf(answer), `${what}: the service answered ${status} ${serviceCode ?? "without a code"}`, {
    cause: error,
    details: {
      status,
      ...(serviceCode === undefined ? {} : { serviceCode }),
      ...(operationIndex === undefined ? {} : { operationIndex }),
    },
  });
}

/** The answer inside an SDK error, or undefined if there was none (no connection, bad credential, a fault of the SDK). */
function answerOf(error: unknown): ServiceAnswer | undefined {
  const { statusCode, code, details } = fieldsOf(error);
  if (typeof statusCode !== "number" || !isRestError(error)) return undefined;
  const { errorCode, odataError } = fieldsOf(details);
  const candidates = [errorCode, fieldsOf(odataError).code, code];
  return {
    status: statusCode,
    serviceCode: candidates.find((candidate) => typeof candidate === "string" && candidate !== "") as string | undefined,
  };
}

/** True if the service refused the request before it did anything: it is busy, so repeating is safe. */
export function isRefusedUnapplied({ details }: OutboxError): boolean {
  return details.status === 503 || details.status === 429;
}

function codeOf({ status, serviceCode = "" }: ServiceAnswer): ErrorCode {
  if (LEASE_TAKEN.has(serviceCode)) return "lease-taken";
  if (serviceCode.startsWith("Lease")) return "lease-lost";
  if (TOO_LARGE.has(serviceCode) || status === 413) return "too-large";
  // A container, queue or table that was deleted a moment ago can be had again after some seconds.
  if (serviceCode.endsWith("BeingDeleted")) return "unavailable";
  if (serviceCode.endsWith("AlreadyExists")) return "already-exists";
  if (status === 401 || status === 403) return "forbidden";
  if (status === 404) return "not-found";
  if (status === 412) return "precondition-failed";
  if (isTransient(status)) return "unavailable";
  return "storage";
}

function isTransient(status: number): boolean {
  return status === 408 || status === 429 || status >= 500;
}

function codeWithoutAnswer(error: unknown): ErrorCode {
  const { name, code, statusCode } = fieldsOf(error);
  // @azure/identity: the credential itself failed. A busy token endpoint is no refusal.
  if (name === "AuthenticationError" && typeof statusCode === "number" && isTransient(statusCode)) return "unavailable";
  if (name === "AuthenticationError" || name === "AggregateAuthenticationError" || name === "CredentialUnavailableError")
    return "forbidden";
  // Node and OpenSSL errors, and what the HTTP client says of an answer that breaks off: nothing was heard from the service, or not all of it.
  if (typeof code === "string" && /^(?:E[A-Z]|ERR_SSL|ERR_TLS|CERT_|REQUEST_SEND_ERROR$|PARSE_ERROR$|UNABLE_TO)/.test(code))
    return "unavailable";
  return "storage";
}

/** The SDK gives the position of the refused operation of a table transaction only as the beginning of the service's message. */
function operationIndexOf(error: unknown): number | undefined {
  const { message, request } = fieldsOf(error);
  const { url } = fieldsOf(request);
  if (typeof url !== "string" || !url.includes("$batch") || typeof message !== "string") return undefined;
  const index = /^([0-9]{1,3}):/.exec(message)?.[1];
  return index === undefined ? undefined : Number(index);
}

function isRestError(error: unknown): boolean {
  return fieldsOf(error).name === "RestError";
}

/** Neither the message of an SDK error, which may hold URLs, nor its headers get into ours; they stay in the cause. */
function nameOf(error: unknown): string {
  const { name, code } = fieldsOf(error);
  return [name, code].filter((part) => typeof part === "string" && part !== "").join(" ") || "no answer";
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
