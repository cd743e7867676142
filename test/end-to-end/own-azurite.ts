/** An Azurite for a proof alone: as a process, and with a database that does not grow slow. Other tests would suffer in the one of the run. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { OwnChild } from "../proof/children.ts";
import type { Azurite } from "../support/azurite.ts";

const PROCESS = fileURLToPath(new URL("../bench/fixtures/azurite-process.ts", import.meta.url));
const MAX_START_MS = 60_000;

/** In memory: nothing is lost with the process that is worth a good-bye. */
export async function startOwnAzurite(): Promise<Azurite & AsyncDisposable> {
  const child = new OwnChild(fork(PROCESS, { execArgv: ["--max-old-space-size=8192"], stdio: ["ignore", "ignore", "inherit", "ipc"] }));
  const stop = (): Promise<void> => child[Symbol.asyncDispose]();
  try {
    const { connectionString } = (await child.firstMessage("Azurite", MAX_START_MS)) as { readonly connectionString: string };
    return { connectionString, stop, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
