import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Heap and buffers of this process that are in use, in bytes: after a garbage collection. */
export function usedBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  // What the first one frees may keep others alive until the second.
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
