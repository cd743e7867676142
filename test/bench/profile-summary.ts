/** What a CPU profile says: the share of each owner of code and each function in the processor time. */

/** The part of V8's format that is read here. */
export interface CpuProfile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string };
  }[];
  /** Ids of the nodes on top at each sample. */
  readonly samples?: readonly number[];
  /** Microseconds before each sample. */
  readonly timeDeltas?: readonly number[];
}

export interface Share {
  readonly name: string;
  /** Of the time in which the processor was not idle, 0 to 1. */
  readonly share: number;
}

export interface ProfileSummary {
  /** By who wrote the code. */
  readonly groups: readonly Share[];
  readonly functions: readonly Share[];
}

const NOT_BUSY: ReadonlySet<string> = new Set(["(idle)", "(root)", "(program)"]);

/** Time on top of the stack, without what was called. The largest shares first. */
export function summarizeProfile({ nodes, samples = [], timeDeltas = [] }: CpuProfile): ProfileSummary {
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]));
  const sums = { groups: new Map<string, number>(), functions: new Map<string, number>() };
  let busy = 0;
  const add = (sum: Map<string, number>, name: string, micros: number): void => void sum.set(name, (sum.get(name) ?? 0) + micros);
  samples.forEach((id, index) => {
    const frame = frames.get(id);
    const micros = timeDeltas[index] ?? 0;
    if (frame === undefined || NOT_BUSY.has(frame.functionName)) return;
    const owner = ownerOf(frame);
    // What takes the profile is not part of what is profiled.
    if (owner === "node:inspector") return;
    busy += micros;
    add(sums.groups, groupOf(owner), micros);
    add(sums.functions, `\`${frame.functionName === "" ? "(anonymous)" : frame.functionName}\` (${owner})`, micros);
  });
  const shares = (sum: ReadonlyMap<string, number>): readonly Share[] =>
    [...sum].map(([name, micros]) => ({ name, share: busy === 0 ? 0 : micros / busy })).sort((left, right) => right.share - left.share);
  return { groups: shares(sums.groups), functions: shares(sums.functions) };
}

function ownerOf({ functionName, url }: { readonly functionName: string; readonly url: string }): string {
  const dependency = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1];
  if (dependency !== undefined) return dependency;
  if (url.startsWith("node:"))
    return `node:${
      url
        .slice("node:".length)
        .replace(/^internal\//, "")
        .split("/")[0]
    }`;
  const room = /\/src\/([^/]+)\//.exec(url)?.[1];
  if (room !== undefined) return `src/${room}`;
  if (url.includes("/test/bench/")) return "the bench";
  return functionName === "(garbage collector)" ? "garbage collection" : "native";
}

function groupOf(owner: string): string {
  if (owner.startsWith("src/")) return "this package";
  if (owner.startsWith("node:") || owner === "native") return "Node: HTTP, streams, crypto, native code";
  if (owner === "garbage collection" || owner === "the bench") return owner;
  return "Azure SDKs and what they use";
}
