/** Runs a part in a process of its own: the parts leave each other neither heap nor compiled code. */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { PARTS, type PartName } from "./parts.ts";
import type { FailedPart, FinishedPart } from "./result.ts";

const SCRIPT = fileURLToPath(new URL("fixtures/part-process.ts", import.meta.url));

/** What the process says. */
export type FromPart = { readonly kind: "progress"; readonly text: string } | { readonly kind: "finished"; readonly part: FinishedPart };

/**
 * @param tell gets the progress
 * @param signal ends it
 */
export async function runPart(name: PartName, tell: (text: string) => void, signal: AbortSignal): Promise<FinishedPart | FailedPart> {
  const { title, limitMs } = PARTS[name];
  const child = fork(SCRIPT, [name], { execArgv: [], stdio: ["ignore", "ignore", "pipe", "ipc"] });
  let finished: FinishedPart | undefined;
  let stderr = "";
  child.on("message", (message: FromPart) => {
    if (message.kind === "progress") tell(message.text);
    else finished = message.part;
  });
  child.stderr!.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, killedBy) => resolve(killedBy ?? `exit code ${code}`));
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), limitMs);
  const onAbort = (): void => void child.kill("SIGKILL");
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    const how = await ended;
    return finished ?? { name, title, error: `${firstError(stderr)} (${how}, at most ${limitMs / 1_000} s)` };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}

/** The line of a stack trace that says what is wrong. */
function firstError(stderr: string): string {
  const lines = stderr.split("\n");
  return (
    lines.find((line) => /^\s*\w*Error\b/.test(line))?.trim() ?? lines.find((line) => line.trim() !== "") ?? "it ended without a result"
  );
}
