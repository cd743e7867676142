/** An Azurite for a proof alone: as a process, and with a database that does not grow slow. Other tests would suffer in the one of the run. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Azurite } from "../support/azurite.ts";

const PROCESS = fileURLToPath(new URL("fixtures/azurite-process.ts", import.meta.url));

export async function startOwnAzurite(): Promise<Azurite> {
  const child = fork(PROCESS, { execArgv: [] });
  const exited = once(child, "exit");
  const [{ connectionString }] = (await once(child, "message")) as [{ readonly connectionString: string }];
  return {
    connectionString,
    async stop() {
      child.disconnect();
      await exited;
    },
  };
}
