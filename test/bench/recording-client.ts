/** An HTTP client that sends requests and keeps what the bench wants to know of them. */
import { createDefaultHttpClient, type HttpClient, type PipelineRequest } from "@azure/core-rest-pipeline";

/** Requests at the same time, over a stretch of time. */
export interface Parallelism {
  readonly peak: number;
  readonly mean: number;
}

/** How many operations the batched requests of one kind had. */
export interface Batches {
  readonly requests: number;
  readonly operations: number;
}

export interface Recording {
  readonly parallelism: Parallelism;
  /** Transactions with at least one write that is no delete. */
  readonly commits: Batches;
  /** Transactions of deletes alone. */
  readonly deletes: Batches;
  readonly blobBatches: Batches;
}

type BatchKind = "commits" | "deletes" | "blobBatches";

export class RecordingClient implements HttpClient {
  readonly #inner: HttpClient = createDefaultHttpClient();
  #batches: Record<BatchKind, Batches> = noBatches();
  #inFlight = 0;
  #peak = 0;
  #area = 0;
  #startedAt = performance.now();
  #changedAt: number = this.#startedAt;

  async sendRequest(request: PipelineRequest): ReturnType<HttpClient["sendRequest"]> {
    this.#recordBatch(request);
    this.#change(1);
    try {
      return await this.#inner.sendRequest(request);
    } finally {
      this.#change(-1);
    }
  }

  reset(): void {
    this.#batches = noBatches();
    this.#peak = this.#inFlight;
    this.#area = 0;
    this.#startedAt = performance.now();
    this.#changedAt = this.#startedAt;
  }

  recording(): Recording {
    this.#change(0);
    return {
      parallelism: { peak: this.#peak, mean: this.#area / Math.max(1e-9, this.#changedAt - this.#startedAt) },
      ...this.#batches,
    };
  }

  #change(by: number): void {
    const now = performance.now();
    this.#area += this.#inFlight * (now - this.#changedAt);
    this.#changedAt = now;
    this.#inFlight += by;
    this.#peak = Math.max(this.#peak, this.#inFlight);
  }

  #recordBatch({ url, body }: PipelineRequest): void {
    if (typeof body !== "string") return;
    if (url.endsWith("/$batch") || url.includes("/$batch?")) {
      const operations = body.match(/^(?:POST|PUT|MERGE|PATCH|DELETE) \S+ HTTP\/1\.1\r?$/gm) ?? [];
      this.#count(operations.every((line) => line.startsWith("DELETE")) ? "deletes" : "commits", operations.length);
    } else if (url.includes("comp=batch")) {
      this.#count("blobBatches", body.match(/^DELETE \S+ HTTP\/1\.1\r?$/gm)?.length ?? 0);
    }
  }

  #count(kind: BatchKind, operations: number): void {
    const { requests, operations: before } = this.#batches[kind];
    this.#batches[kind] = { requests: requests + 1, operations: before + operations };
  }
}

function noBatches(): Record<BatchKind, Batches> {
  const none = { requests: 0, operations: 0 };
  return { commits: none, deletes: none, blobBatches: none };
}
