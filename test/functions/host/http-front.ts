/** The HTTP front of the host: keys, routes, and requests as the library gets them. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import type { Binding, FunctionsWorker } from "./worker.ts";

export const FUNCTION_KEY = "the-function-key";

interface HttpFunction {
  readonly name: string;
  readonly binding: Binding;
}

/** Listens on a free port of this machine. */
export async function startHttpFront(worker: FunctionsWorker): Promise<Server> {
  const functions = worker.functions.flatMap(({ name, bindings }): HttpFunction[] =>
    Object.values(bindings)
      .filter(({ type }) => type === "httpTrigger")
      .map((binding) => ({ name, binding })),
  );
  // The more exact template first, as ASP.NET has it.
  functions.sort((a, b) => Number(a.binding.route!.includes("{")) - Number(b.binding.route!.includes("{")));
  const server = createServer((request, response) => {
    answer(worker, functions, request, response).catch((error: unknown) => {
      response.writeHead(500).end(String(error));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

async function answer(
  worker: FunctionsWorker,
  functions: readonly HttpFunction[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const url = new URL(request.url!, `http://${request.headers.host}`);
  const found = functions
    .map((each) => ({ ...each, params: match(each.binding, request.method!, url.pathname) }))
    .find(({ params }) => params);
  const body = await buffer(request);
  if (found === undefined) return void response.writeHead(404).end();
  const key = request.headers["x-functions-key"] ?? url.searchParams.get("code");
  if (found.binding.authLevel !== "anonymous" && key !== FUNCTION_KEY) return void response.writeHead(401).end();
  const result = await worker.invoke(found.name, {
    http: {
      method: request.method,
      url: `http://${request.headers.host}${request.url}`,
      headers: Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)])),
      // As the host does it: repeated parameters are joined.
      query: Object.fromEntries([...new Set(url.searchParams.keys())].map((name) => [name, url.searchParams.getAll(name).join(",")])),
      params: found.params,
      ...(body.length === 0 ? {} : { body: { bytes: body } }),
    },
  });
  const { statusCode, headers, body: content } = (result as { http: RpcHttp }).http;
  response.writeHead(Number(statusCode), headers).end(content?.bytes === undefined ? (content?.string ?? "") : Buffer.from(content.bytes));
}

interface RpcHttp {
  readonly statusCode: string;
  readonly headers: Record<string, string>;
  readonly body?: { readonly bytes?: Uint8Array; readonly string?: string };
}

/** The route parameters, decoded, or undefined. Only what the app uses: literals, and a catch-all at the end. */
function match({ route, methods }: Binding, method: string, path: string): Record<string, string> | undefined {
  if (!methods!.includes(method)) return undefined;
  const prefix = `/api/${route!.replace(/\{\*path\}$/, "")}`.toLowerCase();
  if (!route!.endsWith("{*path}")) return path.toLowerCase() === prefix ? {} : undefined;
  return path.toLowerCase().startsWith(prefix) ? { path: decodeURIComponent(path.slice(prefix.length)) } : undefined;
}
