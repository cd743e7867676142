/** Blobs of events, archive, dead letters, audit and spilled payloads. */
import type { BlobServiceClient, ContainerClient } from "@azure/storage-blob";
import { BUNDLE_CONTENT_TYPE } from "../core/archive-bundle.ts";
import { OutboxError, isOutboxError } from "../core/errors.ts";
import { EVENT_CONTENT_TYPE } from "../core/event.ts";
import { parseBundleName, type Container } from "../core/names.ts";
import type { BlobContent, Blobs, CallOptions, Etag, ListedBlob, ListOptions, Metadata } from "../core/ports.ts";
import { checkedMetadata, toEtag, toMetadata } from "./blob-metadata.ts";
import { callStorage } from "./call.ts";
import { serviceAge } from "./service-age.ts";
import { readExistingBlob } from "./storage-error.ts";

/** A blob batch holds at most this many deletes. */
const MAX_BATCH = 256;
/** How often a download is continued after its connection broke, within the deadline. */
const MAX_DOWNLOAD_CONTINUATIONS = 2;

/** Names on a page: the most that the service gives. */
const MAX_PAGE = 5_000;
/**
 * Of the archive: bundles have up to 7 KiB of metadata, and nobody knows what is on the next page. So many of them are less than 4 MiB, which
 * get through before the deadline of a call.
 */
const ARCHIVE_PAGE = 500;

export class AzureBlobs implements Blobs {
  readonly #service: BlobServiceClient;
  readonly #nameOf: (container: Container) => string;
  readonly #timeoutMs: number;

  /**
   * @param nameOf a container's name in the account
   * @param timeoutMs deadline of each request, SDK retries included
   */
  constructor(service: BlobServiceClient, nameOf: (container: Container) => string, timeoutMs: number) {
    this.#service = service;
    this.#nameOf = nameOf;
    this.#timeoutMs = timeoutMs;
  }

  async create(container: Container, name: string, bytes: Uint8Array, metadata: Metadata, options?: CallOptions): Promise<Etag> {
    const what = `create blob ${container}/${name}`;
    const checked = checkedMetadata(metadata, `blob ${container}/${name}`);
    const client = this.#container(container).getBlockBlobClient(name);
    const isBundle = container === "archive" && parseBundleName(name) !== undefined;
    const { etag } = await callStorage({ what, timeoutMs: this.#timeoutMs, options, read: readExistingBlob }, (abortSignal) =>
      client.upload(bytes, bytes.length, {
        abortSignal,
        metadata: checked,
        blobHTTPHeaders: { blobContentType: isBundle ? BUNDLE_CONTENT_TYPE : EVENT_CONTENT_TYPE },
        conditions: { ifNoneMatch: "*" },
      }),
    );
    return toEtag(etag, what);
  }

  async read(container: Container, name: string, options?: CallOptions): Promise<BlobContent | undefined> {
    const what = `read blob ${container}/${name}`;
    const client = this.#container(container).getBlobClient(name);
    try {
      return await callStorage({ what, timeoutMs: this.#timeoutMs, options }, async (abortSignal) => {
        // Not downloadToBuffer: it would ask for the size first, one more request.
        const answer = await client.download(undefined, undefined, { abortSignal, maxRetryRequests: MAX_DOWNLOAD_CONTINUATIONS });
        return { bytes: await collect(answer.readableStreamBody), etag: toEtag(answer.etag, what), metadata: toMetadata(answer.metadata) };
      });
    } catch (error) {
      // A missing container is a fault of the deployment, not a missing blob.
      if (isOutboxError(error, "not-found") && error.details.serviceCode !== "ContainerNotFound") return undefined;
      throw error;
    }
  }

  async *list(container: Container, prefix: string, options?: ListOptions): AsyncGenerator<ListedBlob> {
    const what = `list blobs ${container}/${prefix}`;
    const client = this.#container(container);
    let continuationToken: string | undefined;
    const maxPageSize = options?.pageSize ?? (container === "archive" ? ARCHIVE_PAGE : MAX_PAGE);
    do {
      const settings = { maxPageSize, ...(continuationToken === undefined ? {} : { continuationToken }) };
      const page = await callStorage({ what, timeoutMs: this.#timeoutMs, options }, async (abortSignal) => {
        const { value } = await client.listBlobsFlat({ abortSignal, prefix, includeMetadata: true }).byPage(settings).next();
        return value;
      });
      for (const { name, properties, metadata } of page?.segment.blobItems ?? []) {
        const ageMs = serviceAge(page?.date, properties.lastModified, what);
        const sizeBytes = properties.contentLength ?? 0;
        yield { name, ageMs, sizeBytes, etag: toEtag(properties.etag, what), metadata: toMetadata(metadata) };
      }
      // The last page's token is the empty string.
      continuationToken = page?.continuationToken || undefined;
    } while (continuationToken !== undefined);
  }

  async writeMetadata(container: Container, name: string, metadata: Metadata, etag: Etag, options?: CallOptions): Promise<Etag> {
    const what = `write metadata of blob ${container}/${name}`;
    const checked = checkedMetadata(metadata, `blob ${container}/${name}`);
    const client = this.#container(container).getBlobClient(name);
    const written = await callStorage({ what, timeoutMs: this.#timeoutMs, options }, (abortSignal) =>
      client.setMetadata(checked, { abortSignal, conditions: { ifMatch: etag } }),
    );
    return toEtag(written.etag, what);
  }

  async deleteUnchanged(container: Container, name: string, etag: Etag, options?: CallOptions): Promise<void> {
    try {
      await this.#deleteOne(container, name, options, etag);
    } catch (error) {
      if (!isOutboxError(error, "precondition-failed")) throw error;
    }
  }

  async delete(container: Container, names: readonly string[], options?: CallOptions): Promise<void> {
    const distinct = [...new Set(names)];
    for (let start = 0; start < distinct.length; start += MAX_BATCH) {
      const batch = distinct.slice(start, start + MAX_BATCH);
      const left = batch.length === 1 ? batch : await this.#deleteBatch(container, batch, options);
      for (const name of left) await this.#deleteOne(container, name, options);
    }
  }

  /** Deletes blobs in one request. Returns the names that the service did not delete although they exist: it may be busy with some. */
  async #deleteBatch(container: Container, names: readonly string[], options: CallOptions | undefined): Promise<readonly string[]> {
    const client = this.#container(container);
    const call = { what: `delete ${names.length} blobs of ${container}`, timeoutMs: this.#timeoutMs, options };
    const subResponses = await callStorage(call, async (abortSignal) => {
      const batchClient = client.getBlobBatchClient();
      const batch = batchClient.createBatch();
      for (const name of names) await batch.deleteBlob(client.getBlobClient(name));
      return (await batchClient.submitBatch(batch, { abortSignal })).subResponses;
    });
    // A sub-response that is missing counts as a failed one; so does a missing container, which the single delete will tell.
    return names.filter((_name, index) => {
      const { status, errorCode } = subResponses[index] ?? {};
      return status !== 202 && !(status === 404 && errorCode === "BlobNotFound");
    });
  }

  async #deleteOne(container: Container, name: string, options: CallOptions | undefined, etag?: Etag): Promise<void> {
    const client = this.#container(container).getBlobClient(name);
    try {
      await callStorage({ what: `delete blob ${container}/${name}`, timeoutMs: this.#timeoutMs, options }, (abortSignal) =>
        client.delete({ abortSignal, ...(etag === undefined ? {} : { conditions: { ifMatch: etag } }) }),
      );
    } catch (error) {
      if (!isOutboxError(error, "not-found") || error.details.serviceCode === "ContainerNotFound") throw error;
    }
  }

  #container(container: Container): ContainerClient {
    return this.#service.getContainerClient(this.#nameOf(container));
  }
}

async function collect(stream: NodeJS.ReadableStream | undefined): Promise<Uint8Array> {
  if (stream === undefined) throw new OutboxError("storage", "the service answered without a body");
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(typeof chunk === "string" ? Buffer.from(chunk) : chunk);
  return new Uint8Array(Buffer.concat(chunks));
}
