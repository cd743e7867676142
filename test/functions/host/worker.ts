/**
 * The part of the Functions worker that an app meets: the core module that it puts in the place of `@azure/functions-core`, the loading of the
 * `main` glob, and invocations with their hooks. What converts and calls is the library itself, out of the app's own node_modules.
 */
import { readFileSync } from "node:fs";
import Module from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import globby from "globby";

/** As the app gives them: what the host would see. */
export interface Binding {
  readonly type: string;
  readonly direction: string;
  readonly name?: string;
  readonly queueName?: string;
  readonly connection?: string;
  readonly schedule?: string;
  readonly route?: string;
  readonly methods?: readonly string[];
  readonly authLevel?: string;
}

export interface RegisteredFunction {
  readonly name: string;
  readonly bindings: Readonly<Record<string, Binding>>;
}

export interface RpcData {
  readonly string?: string;
  readonly json?: string;
  readonly int?: number;
  readonly bytes?: Uint8Array;
  readonly http?: unknown;
}

interface Registered extends RegisteredFunction {
  readonly callback: (...args: readonly unknown[]) => unknown;
}

interface InvocationModel {
  getArguments(): Promise<{ readonly context: unknown; readonly inputs: unknown[] }>;
  invokeFunction(context: unknown, inputs: unknown[], callback: unknown): Promise<unknown>;
  getResponse(context: unknown, result: unknown): Promise<{ readonly returnValue?: RpcData }>;
}

interface ProgrammingModel {
  getInvocationModel(context: unknown): InvocationModel;
}

type Hook = (context: Record<string, unknown>) => unknown;

export type LogSink = (entry: {
  readonly functionName: string;
  readonly level: string;
  readonly category: string;
  readonly text: string;
}) => void;

export class FunctionsWorker {
  readonly #functions = new Map<string, Registered>();
  readonly #hooks = new Map<string, Hook[]>();
  readonly #log: LogSink;
  #model: ProgrammingModel | undefined;
  #invocations = 0;

  constructor(log: LogSink) {
    this.#log = log;
  }

  /** Loads every file of the `main` glob, in the order of the glob, as the worker does for an ESM app. One that fails fails the app. */
  async load(appFolder: string): Promise<void> {
    this.#provideCore();
    const { main } = JSON.parse(readFileSync(join(appFolder, "package.json"), "utf8")) as { main: string };
    const files = await globby(main, { cwd: appFolder });
    if (files.length === 0) throw new Error(`found zero files matching the supplied pattern ${main}`);
    for (const file of files) await import(pathToFileURL(join(appFolder, file)).href);
    await this.#runHooks("appStart", {});
  }

  get functions(): readonly RegisteredFunction[] {
    return [...this.#functions.values()].map(({ name, bindings }) => ({ name, bindings }));
  }

  /** Rejects with what the function throws; `throw undefined` counts as success, as it does there. */
  async invoke(
    name: string,
    data: RpcData,
    triggerMetadata: Readonly<Record<string, RpcData>> = {},
    traceParent?: string,
  ): Promise<RpcData | undefined> {
    const { bindings, callback } = this.#functions.get(name)!;
    const [inputName] = Object.entries(bindings).find(([, { direction }]) => direction === "in")!;
    const core = {
      invocationId: `invocation-${++this.#invocations}`,
      metadata: { name, bindings },
      request: {
        inputData: [{ name: inputName, data }],
        triggerMetadata,
        ...(traceParent === undefined ? {} : { traceContext: { traceParent } }),
      },
      state: undefined as string | undefined,
      log: (level: string, category: string, text: string) => this.#log({ functionName: name, level, category, text }),
    };
    const model = this.#model!.getInvocationModel(core);
    const { context, inputs } = await model.getArguments();
    const before = { hookData: {}, appHookData: {}, invocationContext: context, functionCallback: callback, inputs };
    core.state = "preInvocationHooks";
    await this.#runHooks("preInvocation", before);
    core.state = "invocation";
    let result: unknown;
    try {
      result = await model.invokeFunction(context, before.inputs, before.functionCallback);
    } catch (error) {
      if (error !== undefined && error !== null) throw error;
    }
    core.state = "postInvocationHooks";
    const { returnValue } = await model.getResponse(context, result);
    return returnValue;
  }

  /** `WorkerTerminate`. The host kills the process 5 s later (`WorkerTerminateGracePeriodInSeconds`). */
  terminate(): Promise<void> {
    return this.#runHooks("appTerminate", {});
  }

  async #runHooks(name: string, context: Record<string, unknown>): Promise<void> {
    for (const hook of this.#hooks.get(name) ?? []) await hook(context);
  }

  #provideCore(): void {
    const disposable = { dispose() {} };
    const core = {
      version: "3.0.0",
      hostVersion: "4.1037.0",
      log: (level: string, category: string, text: string) => this.#log({ functionName: "", level, category, text }),
      Disposable: class {
        dispose(): void {}
      },
      registerHook: (name: string, hook: Hook) => {
        this.#hooks.set(name, [...(this.#hooks.get(name) ?? []), hook]);
        return disposable;
      },
      setProgrammingModel: (model: ProgrammingModel) => {
        this.#model = model;
      },
      getProgrammingModel: () => this.#model,
      registerFunction: ({ name, bindings }: RegisteredFunction, callback: Registered["callback"]) => {
        if (this.#functions.has(name)) throw new Error(`a function with name "${name}" has already been registered`);
        this.#functions.set(name, { name, bindings, callback });
        return disposable;
      },
    };
    const loader = Module as unknown as { _load: (id: string, ...rest: readonly unknown[]) => unknown };
    const load = loader._load;
    loader._load = (id, ...rest) => (id === "@azure/functions-core" ? core : load.call(loader, id, ...rest));
  }
}
