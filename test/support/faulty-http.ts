/** An HttpClient whose every request can be refused, lost, held or answered by the test. */
import {
  RestError,
  createDefaultHttpClient,
  createHttpHeaders,
  type HttpClient,
  type PipelineRequest,
  type PipelineResponse,
} from "@azure/core-rest-pipeline";
import { operationOf, type StorageService } from "../../src/storage/call-counter.ts";

/** What becomes of a request. */
export type Fault =
  | "pass"
  /** The connection breaks before anything is sent. */
  | "refuse-before"
  /** The service does what it is told, then the connection breaks. */
  | "lose-response"
  /** Neither sent nor answered until the request is aborted. */
  | "hang-until-abort"
  /** Sent; the answer is then replaced by what the function makes of it. */
  | { readonly rewrite: (response: PipelineResponse) => PipelineResponse | Promise<PipelineResponse> }
  | FakeAnswer;

/** Not sent; answered like this. */
interface FakeAnswer {
  readonly status: number;
  readonly serviceCode?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

interface SeenRequest {
  /** `blob PutBlob`, `table Transaction` … as counted. */
  readonly operation: string;
  /** 1 for the first request of this operation. */
  readonly nth: number;
  readonly request: PipelineRequest;
}

export type Rule = (seen: SeenRequest) => Fault;

export interface FaultyHttp extends HttpClient {
  /** Decides about every request; `() => "pass"` at first. */
  rule: Rule;
  /** Operations seen so far, in order, repeats included. */
  readonly seen: readonly string[];
  /** How often an operation was seen. */
  count(operation: string): number;
}

export function faultyHttp(inner: HttpClient = createDefaultHttpClient()): FaultyHttp {
  const seen: string[] = [];
  const count = (operation: string): number => seen.filter((each) => each === operation).length;
  const http: FaultyHttp = {
    rule: () => "pass",
    seen,
    count,
    async sendRequest(request) {
      const service = serviceOf(request);
      const operation = `${service} ${operationOf(service, request)}`;
      seen.push(operation);
      const fault = http.rule({ operation, nth: count(operation), request });
      if (fault === "pass") return inner.sendRequest(request);
      if (fault === "refuse-before") throw connectionReset(request);
      if (fault === "hang-until-abort") return abortOf(request);
      if (fault === "lose-response") {
        await inner.sendRequest(request);
        throw connectionReset(request);
      }
      if ("rewrite" in fault) return fault.rewrite(await inner.sendRequest(request));
      return fakeResponse(request, fault);
    },
  };
  return http;
}

/** A rule that disturbs the first `times` requests of one operation and lets all others pass. */
export function onOperation(operation: string, fault: Fault, times: number = 1): Rule {
  return (seen) => (seen.operation === operation && seen.nth <= times ? fault : "pass");
}

/** A rule that disturbs every request of one operation. */
export function always(operation: string, fault: Fault): Rule {
  return onOperation(operation, fault, Number.POSITIVE_INFINITY);
}

/** The requests of the three services differ in their API version and headers; table and queue paths give them away. */
function serviceOf(request: PipelineRequest): StorageService {
  if (request.headers.has("dataserviceversion")) return "table";
  const { pathname } = new URL(request.url);
  return /\/messages(?:\/|$)/.test(pathname) ? "queue" : "blob";
}

function connectionReset(request: PipelineRequest): RestError {
  return new RestError("read ECONNRESET", { code: "ECONNRESET", request });
}

function abortOf(request: PipelineRequest): Promise<never> {
  return new Promise((_resolve, reject) => {
    const abort = (): void => reject(Object.assign(new Error("The operation was aborted."), { name: "AbortError" }));
    if (request.abortSignal?.aborted) return abort();
    request.abortSignal?.addEventListener("abort", abort);
  });
}

function fakeResponse(request: PipelineRequest, { status, serviceCode, headers, body = "" }: FakeAnswer): PipelineResponse {
  return {
    request,
    status,
    headers: createHttpHeaders({ ...(serviceCode === undefined ? {} : { "x-ms-error-code": serviceCode }), ...headers }),
    bodyAsText: body,
  };
}
