/** Stands between an app and its storage account: sees every request, and can let the account be down, or keep single requests from it. */
import { Agent, createServer, request as send, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export type Service = "Blob" | "Queue" | "Table";

export interface SeenRequest {
  readonly service: Service;
  readonly method: string;
  /** With the query, as it was sent. */
  readonly path: string;
}

export interface StorageProxy extends AsyncDisposable {
  readonly connectionString: string;
  readonly seen: readonly SeenRequest[];
  forget(): void;
  /** Requests that can change something. */
  writes(): readonly SeenRequest[];
  /** True: every request is answered with 503, and none gets through. */
  down: boolean;
  /** Resolves with the first request that matches. It is never sent on, nor answered; nor is any other from then on. */
  hold(matches: (request: SeenRequest) => boolean): Promise<SeenRequest>;
}

const SERVICES: readonly Service[] = ["Blob", "Queue", "Table"];

export async function startStorageProxy(connectionString: string): Promise<StorageProxy> {
  const agent = new Agent({ keepAlive: true });
  const seen: SeenRequest[] = [];
  let held: { readonly matches: (request: SeenRequest) => boolean; readonly resolve: (request: SeenRequest) => void } | undefined;
  let isHolding = false;
  const proxy = { down: false };

  const handle = (service: Service, target: URL, request: IncomingMessage, response: ServerResponse): void => {
    const each: SeenRequest = { service, method: request.method!, path: request.url! };
    seen.push(each);
    if (held?.matches(each) === true) {
      isHolding = true;
      held.resolve(each);
      held = undefined;
    }
    if (isHolding) return;
    if (proxy.down) {
      request.resume();
      response.writeHead(503, { "x-ms-error-code": "ServerBusy", connection: "close" }).end();
      return;
    }
    const { hostname, port } = target;
    const forwarded = send({ agent, hostname, port, method: request.method, path: request.url, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.rawHeaders);
      answer.pipe(response);
    });
    forwarded.on("error", () => response.destroy());
    request.pipe(forwarded);
  };

  const servers: Server[] = [];
  let proxied = connectionString;
  for (const service of SERVICES) {
    const target = new URL(new RegExp(`${service}Endpoint=([^;]+)`).exec(connectionString)![1]!);
    const server = createServer((request, response) => handle(service, target, request, response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    servers.push(server);
    proxied = proxied.replace(target.origin, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  }
  return Object.assign(proxy, {
    connectionString: proxied,
    seen,
    forget: () => void seen.splice(0),
    writes: () => seen.filter(({ method }) => method !== "GET" && method !== "HEAD"),
    hold: (matches: (request: SeenRequest) => boolean) =>
      new Promise<SeenRequest>((resolve) => {
        held = { matches, resolve };
      }),
    async [Symbol.asyncDispose]() {
      agent.destroy();
      for (const server of servers) {
        server.closeAllConnections();
        await new Promise<void>((resolve) => server.close(() => resolve()));
      }
    },
  });
}
