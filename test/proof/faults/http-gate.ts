/** Between the storage SDKs and the service: one request at a time, in the order of their issue, so that each has a number. */
import { Readable } from "node:stream";
import {
  RestError,
  createDefaultHttpClient,
  createHttpHeaders,
  createPipelineRequest,
  type HttpClient,
  type PipelineRequest,
  type PipelineResponse,
} from "@azure/core-rest-pipeline";
import { operationOf, type StorageService } from "../../../src/storage/call-counter.ts";
import { settle, type ManualClock } from "../../support/manual-clock.ts";
import { LATE_MS, type FaultName, type Process, type Strikes } from "./strikes.ts";

interface Waiting {
  readonly process: Process;
  readonly request: PipelineRequest;
  readonly answer: PromiseWithResolvers<PipelineResponse>;
  /** Undefined: it has a number of its own and may be struck. */
  readonly late?: true;
}

const RETRY_AFTER_SECONDS = "2";

export class HttpGate {
  readonly #inner: HttpClient;
  readonly #clock: ManualClock;
  readonly #strikes: Strikes;
  readonly #queue: Waiting[] = [];

  constructor(clock: ManualClock, strikes: Strikes, inner: HttpClient = createDefaultHttpClient()) {
    this.#clock = clock;
    this.#strikes = strikes;
    this.#inner = inner;
  }

  client(process: Process): HttpClient {
    return {
      sendRequest: (request) => {
        const answer = Promise.withResolvers<PipelineResponse>();
        this.#queue.push({ process, request, answer });
        return answer.promise;
      },
    };
  }

  /** Lets requests through, one by one, until nothing goes on without time. */
  async idle(): Promise<void> {
    for (;;) {
      await settle();
      const next = this.#queue.shift();
      if (next === undefined) return;
      await this.#let(next);
    }
  }

  async #let({ process, request, answer, late }: Waiting): Promise<void> {
    if (process.dead && late === undefined) return;
    if (request.abortSignal?.aborted === true) return answer.reject(abortError());
    const fault = late === undefined ? this.#strikes.meet(process, nameOf(request)) : undefined;
    if (fault === undefined) {
      await this.#send(request).then(answer.resolve, answer.reject);
      return;
    }
    if (APPLIED.has(fault)) await this.#send(request).catch(() => undefined);
    if (fault === "dies-before" || fault === "dies-after") return process.die();
    if (fault === "late") void this.#clock.sleep(LATE_MS).then(() => this.#queue.push(lateOf(process, request)));
    if (HANGS.has(fault)) {
      request.abortSignal?.addEventListener("abort", () => answer.reject(abortError()));
      return;
    }
    const faked = FAKED[fault];
    if (faked === undefined)
      return answer.reject(new RestError(`connect ${CODES[fault]}`, { code: CODES[fault] ?? "ECONNRESET", request }));
    const headers = createHttpHeaders({
      "x-ms-error-code": faked.serviceCode,
      ...(fault === "429" ? { "retry-after": RETRY_AFTER_SECONDS } : {}),
    });
    answer.resolve({ request, status: faked.status, headers, bodyAsText: "" });
  }

  /** The answer is complete when this resolves: nothing of it is still on its way. */
  async #send(request: PipelineRequest): Promise<PipelineResponse> {
    const response = await this.#inner.sendRequest(request);
    // Node makes this header by itself and by the real time.
    response.headers.set("date", new Date(this.#clock.now()).toUTCString());
    if (response.readableStreamBody === undefined) return response;
    const body = new Readable({ read: () => undefined });
    for await (const chunk of response.readableStreamBody) body.push(chunk);
    body.push(null);
    return { ...response, readableStreamBody: body };
  }
}

const APPLIED: ReadonlySet<FaultName> = new Set(["lost", "hang-applied", "500-applied", "dies-after"]);
const HANGS: ReadonlySet<FaultName> = new Set(["hang", "hang-applied", "late"]);
const CODES: Partial<Record<FaultName, string>> = { refused: "ECONNREFUSED", lost: "ECONNRESET", reset: "EPIPE" };
const FAKED: Partial<Record<FaultName, { readonly status: number; readonly serviceCode: string }>> = {
  "503": { status: 503, serviceCode: "ServerBusy" },
  "500": { status: 500, serviceCode: "InternalError" },
  "500-applied": { status: 500, serviceCode: "OperationTimedOut" },
  "429": { status: 429, serviceCode: "TooManyRequests" },
};

function lateOf(process: Process, request: PipelineRequest): Waiting {
  const { abortSignal: _, ...rest } = request;
  const answer = Promise.withResolvers<PipelineResponse>();
  answer.promise.catch(() => undefined);
  return { process, request: createPipelineRequest(rest), answer, late: true };
}

function abortError(): Error {
  return Object.assign(new Error("The operation was aborted."), { name: "AbortError" });
}

/** `blob PutBlob /events/audit/o-1/01….json`, without the corner of the account that the run has to itself. */
function nameOf(request: PipelineRequest): string {
  const { pathname } = new URL(request.url);
  const service: StorageService = request.headers.has("dataserviceversion")
    ? "table"
    : /\/messages(?:\/|$)/.test(pathname)
      ? "queue"
      : "blob";
  const path = pathname.replace(/^\/[^/]+/, "").replace(/^\/t[0-9a-f]{16}-?/, "/");
  return `${service} ${operationOf(service, request)} ${path}`;
}
