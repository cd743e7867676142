/**
 * Lets an HttpClient of core-rest-pipeline serve the blob and queue SDKs, whose `httpClient` option still has the shape of the older
 * core-http: requests with an older kind of headers go in, responses with that kind of headers must come out.
 */
import { createHttpHeaders, createPipelineRequest, type HttpClient } from "@azure/core-rest-pipeline";
import type { HttpHeaders as LegacyHeaders, IHttpClient as LegacyHttpClient } from "@azure/storage-blob";

export function legacyHttpClient(inner: HttpClient): LegacyHttpClient {
  return {
    async sendRequest(legacy) {
      const { abortSignal, body, onUploadProgress, onDownloadProgress, streamResponseStatusCodes, agent, proxySettings } = legacy;
      const response = await inner.sendRequest(
        createPipelineRequest({
          url: legacy.url,
          method: legacy.method,
          headers: createHttpHeaders(legacy.headers.toJson({ preserveCase: true })),
          timeout: legacy.timeout,
          requestId: legacy.requestId,
          // Not a slip: the SDKs fill the older field with the newer one's value, not with its opposite.
          disableKeepAlive: legacy.keepAlive === true,
          // The SDKs decide about http themselves, by the endpoint they were given.
          allowInsecureConnection: true,
          ...(abortSignal === undefined ? {} : { abortSignal }),
          ...(body === undefined ? {} : { body }),
          ...(onUploadProgress === undefined ? {} : { onUploadProgress }),
          ...(onDownloadProgress === undefined ? {} : { onDownloadProgress }),
          ...(streamResponseStatusCodes === undefined ? {} : { streamResponseStatusCodes }),
          ...(agent === undefined ? {} : { agent }),
          ...(proxySettings === undefined ? {} : { proxySettings }),
        }),
      );
      const { headers, ...rest } = response;
      return { ...rest, request: legacy, headers: legacyHeaders(legacy.headers, headers.toJSON({ preserveCase: true })) };
    },
  };
}

/** The older headers can only be made from others of their kind. */
function legacyHeaders(template: LegacyHeaders, values: Readonly<Record<string, string>>): LegacyHeaders {
  const headers = template.clone();
  for (const { name } of headers.headersArray()) headers.remove(name);
  for (const [name, value] of Object.entries(values)) headers.set(name, value);
  return headers;
}
