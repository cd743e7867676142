/**
 * Child process: the three services of Azurite on free ports of the loopback interface. A process of its own, because it uses a core and has to
 * outlive killed workers. It is assembled from Azurite's inner classes: its command line neither tells its ports to a parent nor ends with it.
 */
import { createRequire } from "node:module";
import { totalmem } from "node:os";
import { join } from "node:path";
import { removeSingleDocumentsCheaply } from "./azurite-database.ts";
import type { FromAzurite, ToAzurite } from "./messages.ts";
import { connectToParent } from "./parent-channel.ts";

interface AzuriteServer {
  start(): Promise<void>;
  close(): Promise<void>;
  getHttpServerAddress(): string;
}

type AzuriteClass<Instance> = new (...options: readonly unknown[]) => Instance;

const require = createRequire(import.meta.url);
const load = <Instance>(path: string, name: string = "default"): AzuriteClass<Instance> =>
  (require(`azurite/dist/src/${path}`) as Record<string, AzuriteClass<Instance>>)[name]!;

const ACCOUNT = "devstoreaccount1";
/** Azurite's published development key: opens nothing but an emulator. */
const ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const KEEP_ALIVE_SECONDS = 5;
const NO_ACCESS_LOG = [false, undefined] as const;
const NO_DEBUG_LOG = [false, undefined] as const;
const LOOSE = false;
/** The SDKs speak newer versions than Azurite knows; what this package uses of them is unchanged. */
const SKIP_API_VERSION_CHECK = true;
const NO_TLS_NO_OAUTH = ["", "", "", undefined] as const;
const DISABLE_PRODUCT_STYLE_URL = true;

let servers: readonly AzuriteServer[] = [];

const send = connectToParent<ToAzurite, FromAzurite>((message) => {
  void (message.kind === "start" ? start(message.folder) : stop());
});

async function start(folder: string | undefined): Promise<void> {
  removeSingleDocumentsCheaply();
  servers = createServers(folder);
  for (const server of servers) await server.start();
  const [blob, queue, table] = servers.map((server) => `${server.getHttpServerAddress()}/${ACCOUNT}`);
  await send({
    kind: "started",
    connectionString: `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${ACCOUNT_KEY};BlobEndpoint=${blob};QueueEndpoint=${queue};TableEndpoint=${table};`,
  });
}

/** Closing writes what is in memory to the folder. */
async function stop(): Promise<void> {
  for (const server of servers) await server.close();
  process.exit(0);
}

/** Files have the names that Azurite's own command line gives them, which can so open the folder afterwards. */
function createServers(folder: string | undefined): readonly AzuriteServer[] {
  const inMemory = folder === undefined;
  const path = (name: string): string => (inMemory ? "" : join(folder, name));
  const memory = inMemory ? new (load("common/persistence/MemoryExtentStore", "MemoryExtentChunkStore"))(totalmem() / 2) : undefined;
  const address = ["127.0.0.1", 0, KEEP_ALIVE_SECONDS] as const;

  const withExtents = (service: "blob" | "queue"): readonly unknown[] => [
    ...address,
    path(`__azurite_db_${service}__.json`),
    path(`__azurite_db_${service}_extent__.json`),
    inMemory ? [] : [{ locationId: "Default", locationPath: path(`__${service}storage__`), maxConcurrency: 50 }],
    ...NO_ACCESS_LOG,
    ...NO_DEBUG_LOG,
    LOOSE,
    SKIP_API_VERSION_CHECK,
    ...NO_TLS_NO_OAUTH,
    DISABLE_PRODUCT_STYLE_URL,
    inMemory,
    memory,
  ];
  // The table configuration has its two logs the other way round.
  const table = [
    ...address,
    path("__azurite_db_table__.json"),
    false,
    false,
    undefined,
    undefined,
    LOOSE,
    SKIP_API_VERSION_CHECK,
    ...NO_TLS_NO_OAUTH,
    DISABLE_PRODUCT_STYLE_URL,
    inMemory,
  ];
  return [
    new (load<AzuriteServer>("blob/BlobServer"))(new (load("blob/BlobConfiguration"))(...withExtents("blob"))),
    new (load<AzuriteServer>("queue/QueueServer"))(new (load("queue/QueueConfiguration"))(...withExtents("queue"))),
    new (load<AzuriteServer>("table/TableServer"))(new (load("table/TableConfiguration"))(...table)),
  ];
}
