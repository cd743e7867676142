/** Telemetry of the deployed app, to an ingestion endpoint and a token endpoint that stand in for the platform's over real HTTPS and HTTP. */
import { writeFileSync } from "node:fs";
import { createServer as createHttpServer, type IncomingMessage, type Server } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { generate } from "selfsigned";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startAzurite, type Azurite } from "../support/azurite.ts";
import { connectStorage } from "../../src/storage/connect.ts";
import { startHost, type Host } from "./host/start-host.ts";
import { SETUP_MS, type UnpackedApp } from "./host/unpacked-app.ts";

const CLIENT_ID = "11111111-2222-4333-8444-555555555555";
const TOKEN = "the-token";

interface Envelope {
  readonly tags: Readonly<Record<string, string>>;
  readonly data: { readonly baseData: { readonly metrics?: readonly { readonly name: string }[] } };
}

async function listen(server: Server | ReturnType<typeof createHttpsServer>): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

export function telemetrySuite(appOf: () => UnpackedApp): void {
  describe("telemetry", () => {
    let azurite: Azurite;
    let ingestion: ReturnType<typeof createHttpsServer>;
    let identity: Server;
    let settings: Record<string, string>;
    let logFile: string;
    const hosts: Host[] = [];
    const tokenQueries: URLSearchParams[] = [];
    const authorizations = new Set<string | undefined>();
    const envelopes: Envelope[] = [];

    beforeAll(async () => {
      azurite = await startAzurite();
      await connectStorage({ connectionString: azurite.connectionString }).createResources();
      const pems = await generate([{ name: "commonName", value: "localhost" }], {
        extensions: [
          { name: "basicConstraints", cA: true },
          { name: "subjectAltName", altNames: [{ type: 2, value: "localhost" }] },
        ],
      });
      const certificate = join(appOf().scratch, "ca.pem");
      writeFileSync(certificate, pems.cert);
      logFile = join(appOf().scratch, "telemetry.log");
      writeFileSync(logFile, "");
      ingestion = createHttpsServer({ key: pems.private, cert: pems.cert }, (request, response) => {
        void received(request).then((count) => {
          response.writeHead(200, { "content-type": "application/json" });
          response.end(JSON.stringify({ itemsReceived: count, itemsAccepted: count, errors: [] }));
        });
      });
      identity = createHttpServer((request, response) => {
        tokenQueries.push(new URL(request.url!, "http://localhost").searchParams);
        const expires = Math.floor(Date.now() / 1_000) + 3_600;
        response.writeHead(200, { "content-type": "application/json" });
        response.end(JSON.stringify({ access_token: TOKEN, expires_on: String(expires), resource: "r", token_type: "Bearer" }));
      });
      const [ingestionPort, identityPort] = [await listen(ingestion), await listen(identity)];
      settings = {
        AzureWebJobsStorage: azurite.connectionString,
        WEBSITE_SITE_NAME: "orders-app",
        APPLICATIONINSIGHTS_CONNECTION_STRING: `InstrumentationKey=${CLIENT_ID};IngestionEndpoint=https://localhost:${ingestionPort}/`,
        APPLICATIONINSIGHTS_AUTHENTICATION_STRING: `Authorization=AAD;ClientId=${CLIENT_ID}`,
        APPLICATIONINSIGHTS_STATSBEAT_DISABLED: "true",
        APPLICATIONINSIGHTS_SDKSTATS_DISABLED: "true",
        IDENTITY_ENDPOINT: `http://127.0.0.1:${identityPort}/token`,
        IDENTITY_HEADER: "secret",
        NODE_EXTRA_CA_CERTS: certificate,
      };
    }, SETUP_MS);

    afterAll(async () => {
      for (const host of hosts) await host.kill();
      for (const server of [ingestion, identity]) {
        server?.closeAllConnections();
        server?.close();
      }
      await azurite?.stop();
    }, SETUP_MS);

    async function received(request: IncomingMessage): Promise<number> {
      const body = await buffer(request);
      authorizations.add(request.headers.authorization);
      const text = (request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body).toString("utf8");
      const items = JSON.parse(text) as readonly Envelope[];
      envelopes.push(...items);
      return items.length;
    }

    async function start(own: Readonly<Record<string, string>>): Promise<Host> {
      const host = await startHost({ appFolder: appOf().folder, logFile, settings: { ...settings, ...own } });
      hosts.push(host);
      return host;
    }

    test("the metrics of this package arrive under their names, with the identity's token, when the app ends at the latest", async () => {
      const host = await start({});
      await host.tick("sweep");
      await host.terminate();
      const names = new Set(envelopes.flatMap(({ data }) => (data.baseData.metrics ?? []).map(({ name }) => name)));
      expect(names).toEqual(new Set(["outbox_sweep_total", "outbox_backlog_orders", "outbox_storage_calls_total"]));
      expect(authorizations).toEqual(new Set([`Bearer ${TOKEN}`]));
      expect(tokenQueries.map((query) => [query.get("resource"), query.get("client_id")])).toEqual([
        ["https://monitor.azure.com", CLIENT_ID],
      ]);
      expect(new Set(envelopes.map(({ tags }) => tags["ai.cloud.role"]))).toEqual(new Set(["orders-app"]));
    });

    test("a connection string that is none is told, and the app works without telemetry", async () => {
      const host = await start({ APPLICATIONINSIGHTS_CONNECTION_STRING: "InstrumentationKey=x" });
      await host.tick("sweep");
      expect((await host.terminate()).ms).toBeLessThan(5_000);
      expect(host.stderr()).toMatch(/^error: there is no telemetry: APPLICATIONINSIGHTS_CONNECTION_STRING .* wrong/);
    });
  });
}
