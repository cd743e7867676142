/** Rooms that a room may import besides itself. `.` is the front door, src/index.ts. */
export const ROOMS: Readonly<Record<string, readonly string[]>> = {
  core: [],
  system: ["core"],
  storage: ["core"],
  producer: ["core", "system"],
  worker: ["core", "system"],
  operations: ["core", "system"],
  shipment: ["core", "webhook"],
  webhook: ["core", "system"],
  ".": ["core", "storage", "producer", "worker", "operations", "system", "webhook"],
  cli: ["core", "system", "storage", "worker", "operations"],
  functions: ["core", "system", "storage", "worker", "operations", "shipment"],
  local: ["core", "system", "storage", "producer", "worker", "shipment", "webhook"],
};
