/**
 * `npx node test/proof/faults/main.ts`: the proof by fault enumeration, alone. With `--call 17 --fault 503 [--burst] [--second 22:lost]` one run
 * of it, told call by call.
 */
import { parseArgs } from "node:util";
import { proveFaults } from "./prove.ts";
import { runOne, type RunOutcome } from "./run-one.ts";
import type { ScenarioName } from "./scenario.ts";
import { DEATHS, FAULTS, type FaultName, type Strike } from "./strikes.ts";
import { azuriteWorlds, memoryWorlds } from "./world.ts";

const print = (line: string): void => void process.stdout.write(`${line}\n`);

const { values } = parseArgs({
  options: {
    call: { type: "string" },
    fault: { type: "string" },
    burst: { type: "boolean", default: false },
    second: { type: "string" },
    world: { type: "string", default: "azurite" },
    scenario: { type: "string", default: "full" },
    small: { type: "boolean", default: false },
    seed: { type: "string", default: "1" },
    only: { type: "string", default: "" },
    lanes: { type: "string" },
    minutes: { type: "string" },
  },
});

function faultOf(name: string | undefined): FaultName {
  const fault = [...FAULTS, ...DEATHS].find((each) => each === name);
  if (fault === undefined) refuse(`--fault ${name}: one of ${[...FAULTS, ...DEATHS].join(", ")} is needed`);
  return fault;
}

function refuse(text: string): never {
  process.stderr.write(`${text}\n`);
  process.exit(2);
}

function strikesOf(): readonly Strike[] {
  const first: Strike = { call: Number(values.call), fault: faultOf(values.fault), burst: values.burst };
  if (values.second === undefined) return [first];
  const [call, fault] = values.second.split(":");
  return [first, { call: Number(call), fault: faultOf(fault) }];
}

function tell({ trail, hits, violations, duplicates, handlerCalls, recoveryMs }: RunOutcome): void {
  const struck = new Map(hits.map(({ call, fault }) => [call, fault]));
  trail.forEach((call, index) => {
    const fault = struck.get(index + 1);
    print(`${String(index + 1).padStart(4)} ${call}${fault === undefined ? "" : `   <== ${fault}`}`);
  });
  print(`${handlerCalls} handler calls, ${duplicates} duplicates, recovered after ${recoveryMs / 1000} s`);
  print(violations.length === 0 ? "0 violations" : `VIOLATED:\n  ${violations.join("\n  ")}`);
}

// A run that waits for nothing but its own lapsed time has no handle that would keep the process.
const alive = setInterval(() => undefined, 60_000);
let sound: boolean;
if (values.call === undefined) {
  const report = await proveFaults({
    progress: print,
    seed: Number(values.seed),
    small: values.small,
    only: values.only,
    ...(values.lanes === undefined ? {} : { lanes: Number(values.lanes) }),
    ...(values.minutes === undefined ? {} : { budgetMs: Number(values.minutes) * 60_000 }),
  });
  print(`${report.violations.length} violations${report.complete ? "" : ", not all was tried"} (seed ${values.seed})`);
  sound = report.violations.length === 0;
} else {
  const worlds = values.world === "memory" ? memoryWorlds() : azuriteWorlds();
  const strikes = strikesOf();
  const outcome = await runOne(worlds, values.scenario as ScenarioName, strikes);
  tell(outcome);
  await worlds.close();
  const far = strikes.find(({ call }) => call > outcome.trail.length);
  if (far !== undefined) refuse(`call ${far.call} never came: this run has ${outcome.trail.length}`);
  sound = outcome.violations.length === 0;
}
clearInterval(alive);
process.exit(sound ? 0 : 1);
