/** Answers of the operations API, and what goes wrong as problem details (RFC 9457). */
import type { HttpResponseInit } from "@azure/functions";
import { describeError, isOutboxError, type ErrorCode } from "../../core/errors.ts";

/** A refusal that we decide about ourselves. */
export class HttpProblem extends Error {
  readonly status: number;
  /** Members of the problem besides `type`, `title`, `status` and `detail`. */
  readonly members: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    detail: string,
    more: { readonly members?: Readonly<Record<string, unknown>>; readonly headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(detail);
    this.name = "HttpProblem";
    this.status = status;
    this.members = more.members ?? {};
    this.headers = more.headers ?? {};
  }
}

const TITLES: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  409: "Conflict",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  422: "Unprocessable Content",
  500: "Internal Server Error",
  503: "Service Unavailable",
};

const STATUS_OF: Partial<Record<ErrorCode, number>> = {
  "invalid-option": 400,
  "invalid-order-id": 400,
  conflict: 409,
  timeout: 503,
  unavailable: 503,
  aborted: 503,
};

/** For 503. */
export const RETRY_LATER: Readonly<Record<string, string>> = { "retry-after": "30" };
/** What is told here is of the moment, and for the operator alone. */
const COMMON_HEADERS = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

export function jsonAnswer(body: unknown): HttpResponseInit {
  return { status: 200, headers: { ...COMMON_HEADERS, "content-type": "application/json" }, body: JSON.stringify(body) };
}

/** @param invocationId for the log: what is wrong with the server is told there only */
export function problemOf(error: unknown, invocationId: string): HttpResponseInit {
  if (error instanceof HttpProblem) {
    return problem(error.status, error.message, { ...error.members, invocationId }, error.headers);
  }
  if (!isOutboxError(error)) return problem(500, "see the log of this invocation", { invocationId });
  const { code } = error;
  // What the service does not find is a container, queue or table; what we do not find says so itself.
  const isOwnNotFound = code === "not-found" && error.details.status === undefined;
  const status = isOwnNotFound ? 404 : (STATUS_OF[code] ?? 500);
  return problem(status, describeError(error), { code, invocationId }, status === 503 ? RETRY_LATER : {});
}

function problem(
  status: number,
  detail: string,
  members: Readonly<Record<string, unknown>>,
  headers: Readonly<Record<string, string>> = {},
): HttpResponseInit {
  return {
    status,
    headers: { ...COMMON_HEADERS, ...headers, "content-type": "application/problem+json" },
    body: JSON.stringify({ ...members, type: "about:blank", title: TITLES[status] ?? "Error", status, detail }),
  };
}
