/** Child process: runs the units it is given, one after the other. */
import { runUnit, type Tally, type Unit } from "./unit.ts";
import { azuriteWorlds, memoryWorlds, type Worlds } from "./world.ts";

export type FromUnitProcess = { readonly kind: "ready" } | { readonly kind: "done"; readonly tally: Tally };

const send = (message: FromUnitProcess): void => void process.send?.(message);
const worlds: Record<Unit["world"], () => Worlds> = { azurite: azuriteWorlds, memory: memoryWorlds };
let open: { readonly name: Unit["world"]; readonly worlds: Worlds } | undefined;

process.on("disconnect", () => process.exit(0));
process.on("message", (unit: Unit) => {
  if (open?.name !== unit.world) open = { name: unit.world, worlds: worlds[unit.world]() };
  void runUnit(open.worlds, unit).then((tally) => send({ kind: "done", tally }));
});
send({ kind: "ready" });
