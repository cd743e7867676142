/** Runs the command line as a process of its own and waits for its end. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

/** More than any command of a test prints; beyond it the process would be killed. */
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

export interface CliResult {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** @param connectionString of the account that the command works on */
export function runCli(args: readonly string[], connectionString: string): Promise<CliResult> {
  const { ORDERED_OUTBOX_ACCOUNT: _account, AzureWebJobsStorage: _functions, ...inherited } = process.env;
  const env = { ...inherited, NO_COLOR: "1", ORDERED_OUTBOX_CONNECTION_STRING: connectionString };
  const options = { env, encoding: "utf8", maxBuffer: MAX_OUTPUT_BYTES } as const;
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [MAIN, ...args], options, (_error, stdout, stderr) => {
      resolve({ status: child.exitCode ?? -1, stdout, stderr });
    });
  });
}
