/** The parts of the proof, in the order in which they run: the quick ones that find the most first. */
import { proveDeployments } from "./deployments/prove.ts";
import { proveFaults } from "./faults/prove.ts";
import { proveFullSize } from "./full-size.ts";
import { proveHostile } from "./hostile/prove.ts";
import { proveKills } from "./kills/prove.ts";
import { proveModel } from "./model/prove.ts";
import { proveNetwork } from "./network/prove.ts";
import type { PartReport, ProveOptions } from "./report.ts";
import { proveSchedules } from "./schedules/prove.ts";
import { proveSoak } from "./soak/prove.ts";

export interface Part {
  readonly name: string;
  /** What it tries, in a sentence. */
  readonly about: string;
  readonly prove: (options: ProveOptions) => Promise<PartReport>;
  /** Whether it shows one violation again by `--path`. The others are repeated by their seed, or by a command of their own. */
  readonly takesPath?: true;
}

export const PARTS: readonly Part[] = [
  { name: "model", about: "A model of the protocol, explored exhaustively; each rule left out in turn.", prove: proveModel },
  {
    name: "schedules",
    about: "The real code on memory ports, its calls, answers, timers and accidents in any order.",
    prove: proveSchedules,
    takesPath: true,
  },
  {
    name: "deployments",
    about: "Processes of two deployments, one without a subscription, with deaths, late writes, operators, replays and sweeps, at random.",
    prove: proveDeployments,
    takesPath: true,
  },
  {
    name: "hostile",
    about: "Hostile input of every kind, beside orders that have nothing to do with it.",
    prove: proveHostile,
    takesPath: true,
  },
  { name: "faults", about: "Every fault and death at every storage call of a scenario, and pairs of them.", prove: proveFaults },
  { name: "network", about: "A network that resets, delays and loses, between the processes and the account.", prove: proveNetwork },
  { name: "kills", about: "Worker and producer processes killed and frozen at random.", prove: proveKills },
  {
    name: "full-size",
    about: "The tests too long for every run: each file *.proof.ts tries something at the size of an account that is years old.",
    prove: proveFullSize,
    takesPath: true,
  },
  { name: "soak", about: "Mixed load for a long time: memory, handles, sockets, timers and cost stay as they are.", prove: proveSoak },
];
