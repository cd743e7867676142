/** Azurite inside the test process: memory only, free ports, gone with the process. */
import { createRequire } from "node:module";

export interface Azurite {
  readonly connectionString: string;
  stop(): Promise<void>;
}

interface AzuriteServer {
  start(): Promise<void>;
  close(): Promise<void>;
  getHttpServerAddress(): string;
}

type Constructor<Instance> = new (...args: readonly unknown[]) => Instance;

// The package's main module needs VS Code, and it has no types: its inner modules are loaded by path.
const require = createRequire(import.meta.url);
const load = <Loaded>(path: string, name: string): Loaded =>
  (require(`azurite/dist/src/${path}`) as Record<string, Loaded>)[name] as Loaded;

const ACCOUNT = "devstoreaccount1";
/** The account key that every emulator has. */
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const HOST = "127.0.0.1";
/** Azurite's own default. */
const KEEP_ALIVE_SECONDS = 5;
const EXTENT_BYTES = 512 * 1024 * 1024;

/** The newest SDKs send API versions that Azurite does not know yet. */
const SKIP_API_VERSION_CHECK = true;

/** Its search for unused memory stops it for minutes once there are ten thousand blobs: not within any test run. */
const COLLECT_EVERY_MS = 24 * 60 * 60 * 1000;

/** @param options.keepAliveSeconds how long a connection that nobody uses stays open. Default 5 */
export async function startAzurite({
  keepAliveSeconds = KEEP_ALIVE_SECONDS,
}: { readonly keepAliveSeconds?: number } = {}): Promise<Azurite> {
  for (const kind of ["blob", "queue"]) {
    (require(`azurite/dist/src/${kind}/utils/constants`) as Record<string, unknown>)["DEFAULT_GC_INTERVAL_MS"] = COLLECT_EVERY_MS;
  }
  const MemoryExtentChunkStore = load<Constructor<object>>("common/persistence/MemoryExtentStore", "MemoryExtentChunkStore");
  const extents = new MemoryExtentChunkStore(EXTENT_BYTES);
  const blob = blobOrQueueServer("blob/Blob", extents, keepAliveSeconds);
  const queue = blobOrQueueServer("queue/Queue", extents, keepAliveSeconds);
  const table = tableServer(keepAliveSeconds);
  await Promise.all([blob.start(), queue.start(), table.start()]);
  return {
    connectionString: [
      "DefaultEndpointsProtocol=http",
      `AccountName=${ACCOUNT}`,
      `AccountKey=${KEY}`,
      `BlobEndpoint=${blob.getHttpServerAddress()}/${ACCOUNT}`,
      `QueueEndpoint=${queue.getHttpServerAddress()}/${ACCOUNT}`,
      `TableEndpoint=${table.getHttpServerAddress()}/${ACCOUNT}`,
    ].join(";"),
    stop: async () => void (await Promise.all([blob.close(), queue.close(), table.close()])),
  };
}

/** Order of the arguments: azurite/dist/src/blob/BlobConfiguration.js; the one of queues has the same. */
function blobOrQueueServer(path: string, extents: object, keepAliveSeconds: number): AzuriteServer {
  const Configuration = load<Constructor<object>>(`${path}Configuration`, "default");
  const Server = load<Constructor<AzuriteServer>>(`${path}Server`, "default");
  const noTls = ["", "", ""];
  return new Server(
    new Configuration(
      HOST,
      0,
      keepAliveSeconds,
      "",
      "",
      [],
      false,
      undefined,
      false,
      undefined,
      false,
      SKIP_API_VERSION_CHECK,
      ...noTls,
      undefined,
      true,
      true,
      extents,
    ),
  );
}

/** Order of the arguments: azurite/dist/src/table/TableConfiguration.js. */
function tableServer(keepAliveSeconds: number): AzuriteServer {
  const Configuration = load<Constructor<object>>("table/TableConfiguration", "default");
  const Server = load<Constructor<AzuriteServer>>("table/TableServer", "default");
  const noTls = ["", "", ""];
  return new Server(
    new Configuration(
      HOST,
      0,
      keepAliveSeconds,
      "",
      false,
      false,
      undefined,
      undefined,
      false,
      SKIP_API_VERSION_CHECK,
      ...noTls,
      undefined,
      true,
      true,
    ),
  );
}
