/**
 * Sends U+2028 and U+2029 in table transactions as JSON escapes. They mean the same, but Azurite reads the operations of a transaction with
 * an expression that stops at these characters, and answers 500 for ever.
 */
import type { PipelinePolicy } from "@azure/core-rest-pipeline";

export function lineSeparatorPolicy(): PipelinePolicy {
  return {
    name: "lineSeparatorPolicy",
    sendRequest(request, next) {
      // Row keys in URLs are percent-encoded and headers are ASCII: in a transaction's body these characters stand inside JSON texts only.
      if (request.url.includes("/$batch") && typeof request.body === "string") {
        request.body = request.body.replaceAll("\u2028", "\\u2028").replaceAll("\u2029", "\\u2029");
        // It was set by the unescaped body; the signature of table requests does not cover it.
        request.headers.set("Content-Length", Buffer.byteLength(request.body));
      }
      return next(request);
    },
  };
}
