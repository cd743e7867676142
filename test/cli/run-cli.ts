/** Runs the command line as a process of its own and waits for its end. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

export interface CliResult {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** @param connectionString of the account that the command works on */
export function runCli(args: readonly string[], connectionString: string): Promise<CliResult> {
  const { ORDERED_OUTBOX_ACCOUNT: _account, AzureWebJobsStorage: _functions, ...inherited } = process.env;
  const env = { ...inherited, NO_COLOR: "1", ORDERED_OUTBOX_CONNECTION_STRING: connectionString };
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [MAIN, ...args], { env, encoding: "utf8" }, (_error, stdout, stderr) => {
      resolve({ status: child.exitCode ?? -1, stdout, stderr });
    });
  });
}
