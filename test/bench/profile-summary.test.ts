import { expect, test } from "vitest";
import { summarizeProfile, type CpuProfile } from "./profile-summary.ts";

const node = (id: number, functionName: string, url: string): CpuProfile["nodes"][number] => ({ id, callFrame: { functionName, url } });

test("time on top of the stack by owner; what is idle or takes the profile does not count", () => {
  const profile: CpuProfile = {
    nodes: [
      node(1, "(idle)", ""),
      node(2, "drain", "file:///app/src/worker/drain.ts"),
      node(3, "sign", "file:///app/node_modules/@azure/storage-common/dist/sign.js"),
      node(4, "parse", "file:///app/node_modules/a/node_modules/fast-xml-parser/x.js"),
      node(5, "", "node:internal/streams/readable"),
      node(6, "writev", ""),
      node(7, "(garbage collector)", ""),
      node(8, "post", "node:inspector"),
    ],
    samples: [1, 2, 2, 3, 4, 5, 6, 7, 8],
    timeDeltas: [1_000, 10, 20, 30, 10, 10, 15, 5, 900],
  };
  const { groups, functions } = summarizeProfile(profile);
  expect(groups).toEqual([
    { name: "Azure SDKs and what they use", share: 0.4 },
    { name: "this package", share: 0.3 },
    { name: "Node: HTTP, streams, crypto, native code", share: 0.25 },
    { name: "garbage collection", share: 0.05 },
  ]);
  expect(functions.map(({ name, share }) => [name, share])).toEqual([
    ["`drain` (src/worker)", 0.3],
    ["`sign` (@azure/storage-common)", 0.3],
    ["`writev` (native)", 0.15],
    ["`parse` (fast-xml-parser)", 0.1],
    ["`(anonymous)` (node:streams)", 0.1],
    ["`(garbage collector)` (garbage collection)", 0.05],
  ]);
});

test("a profile without samples", () => {
  expect(summarizeProfile({ nodes: [] })).toEqual({ groups: [], functions: [] });
});
