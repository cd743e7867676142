/** Starts host processes and talks to them. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Ending, FromHost, ToHost } from "./messages.ts";
import type { ListenerCounts } from "./queue-listener.ts";

const HOST = fileURLToPath(new URL("../fixtures/host-process.ts", import.meta.url));

export interface LogEntry {
  readonly pid: number;
  /** Wall clock, in ms since 1970. */
  readonly at: number;
  readonly functionName: string;
  readonly level: string;
  readonly category: string;
  readonly text: string;
}

export interface Host extends AsyncDisposable {
  readonly pid: number;
  readonly loaded: Extract<FromHost, { kind: "loaded" }>;
  /** What the app wrote there outside of invocations. */
  stderr(): string;
  /** Of the HTTP front, with `/api`. */
  readonly url: string;
  listen(connectionString: string): Promise<void>;
  tick(name: "sweep" | "reconcile" | "cleanup"): Promise<void>;
  invoke(name: string, text: string, traceParent?: string): Promise<void>;
  counts(): Promise<Readonly<Record<string, ListenerCounts>>>;
  terminate(): Promise<Ending>;
  kill(): Promise<void>;
}

export interface HostOptions {
  readonly appFolder: string;
  readonly logFile: string;
  readonly settings: Readonly<Record<string, string>>;
}

export async function startHost({ appFolder, logFile, settings }: HostOptions): Promise<Host> {
  const { PATH = "" } = process.env;
  const child = fork(HOST, [appFolder, logFile], { env: { PATH, ...settings }, stdio: ["ignore", "inherit", "pipe", "ipc"] });
  let stderr = "";
  child.stderr!.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const next = conversation(child);
  const loaded = await next(undefined).catch((cause: unknown) =>
    Promise.reject(new Error(`the app can't be loaded: ${stderr}`, { cause })),
  );
  if (loaded.kind !== "loaded") throw new Error(`the host began with ${loaded.kind}`);
  const ask = async (message: ToHost): Promise<FromHost> => {
    const answer = await next(message);
    if (answer.kind === "failed") throw new Error(answer.text);
    return answer;
  };
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  };
  return {
    pid: child.pid!,
    loaded,
    stderr: () => stderr,
    url: `http://127.0.0.1:${loaded.port}/api`,
    listen: async (connectionString) => void (await ask({ kind: "listen", connectionString })),
    tick: async (name) => void (await ask({ kind: "tick", name })),
    invoke: async (name, text, traceParent) =>
      void (await ask({ kind: "invoke", name, text, ...(traceParent === undefined ? {} : { traceParent }) })),
    counts: async () => ((await ask({ kind: "counts" })) as Extract<FromHost, { kind: "counts" }>).counts,
    terminate: async () => ((await ask({ kind: "terminate" })) as Extract<FromHost, { kind: "terminated" }>).ending,
    kill,
    [Symbol.asyncDispose]: kill,
  };
}

/** Answers come in the order of the questions only if one waits for the other. */
function conversation(child: ChildProcess): (message: ToHost | undefined) => Promise<FromHost> {
  let last: Promise<unknown> = Promise.resolve();
  return (message) => {
    const answer = last.then(async () => {
      const ended = new AbortController();
      try {
        const answered = Promise.race([
          once(child, "message", { signal: ended.signal }) as Promise<[FromHost]>,
          once(child, "exit", { signal: ended.signal }).then(() => Promise.reject(new Error("the host process has ended"))),
        ]);
        if (message !== undefined) child.send(message);
        return (await answered)[0];
      } finally {
        ended.abort();
      }
    });
    last = answer.catch(() => {});
    return answer;
  };
}

export function readLog(logFile: string): readonly LogEntry[] {
  return parseLog(readFileSync(logFile, "utf8"));
}

/** @param text whole lines */
export function parseLog(text: string): readonly LogEntry[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as LogEntry);
}
