/** Bodies of changes: small JSON documents, read strictly. */
import type { HttpRequest } from "@azure/functions";
import type { z } from "zod";
import { HttpProblem } from "./problem.ts";
import { issuesText } from "./query.ts";

/** The longest one names an OrderId, a reason of 500 characters and a few filters. */
export const MAX_BODY_BYTES = 65_536;

/** @throws HttpProblem 400, 413, 415 or 422 */
export async function readJsonBody<Schema extends z.ZodType>(request: HttpRequest, schema: Schema): Promise<z.output<Schema>> {
  if (!isJson(request.headers.get("content-type"))) {
    // Also what a page of another site can't send without asking first.
    throw new HttpProblem(415, "send Content-Type: application/json, in UTF-8");
  }
  const result = schema.safeParse(parsed(await readBounded(request)));
  if (!result.success) throw new HttpProblem(422, `wrong body: ${issuesText(result.error)}`);
  return result.data;
}

function isJson(contentType: string | null): boolean {
  return /^application\/json\s*(?:;\s*charset="?utf-8"?\s*)?$/i.test(contentType?.trim() ?? "");
}

async function readBounded(request: HttpRequest): Promise<Uint8Array> {
  if (Number(request.headers.get("content-length")) > MAX_BODY_BYTES) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request.body ?? []) {
    const bytes = chunk as Uint8Array;
    length += bytes.byteLength;
    // Leaving the loop cancels the stream.
    if (length > MAX_BODY_BYTES) throw tooLarge();
    chunks.push(bytes);
  }
  return Buffer.concat(chunks);
}

function tooLarge(): HttpProblem {
  return new HttpProblem(413, `the body has more than ${MAX_BODY_BYTES} bytes`);
}

function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new HttpProblem(400, "the body is no JSON document in UTF-8");
  }
}
