/** `npx node test/proof/model/main.ts [--small] [--without RULE] [--json]`: the model by itself. Exit code 1 if what should be shown is not. */
import { parseArgs } from "node:util";
import { explore } from "./explore.ts";
import { describeCounterExample, exploreModel } from "./explore-model.ts";
import { RULE_NAMES, RULES, type Rule } from "./rules.ts";
import { modelWithout } from "./scenarios.ts";

const { values } = parseArgs({ options: { without: { type: "string" }, json: { type: "boolean" }, small: { type: "boolean" } } });
const print = (line: string): void => void process.stdout.write(`${line}\n`);

if (values.without === undefined) {
  const report = await exploreModel({
    ...(values.json === true ? {} : { progress: print }),
    ...(values.small === true ? { small: true } : {}),
  });
  if (values.json === true) print(JSON.stringify(report, undefined, 2));
  else {
    for (const { rule, text, counterExample } of report.rules)
      if (counterExample !== undefined) print(`\nWithout ${rule} (${text}):\n${describeCounterExample(counterExample)}`);
    print(
      `\n${report.states.toLocaleString("en")} states, ${report.transitions.toLocaleString("en")} transitions, ${report.violations} violations; ` +
        `${report.rules.filter(({ counterExample }) => counterExample !== undefined).length} of ${report.rules.length} rules have a counter-example.`,
    );
  }
  process.exitCode = report.proven ? 0 : 1;
} else if (isRule(values.without)) {
  const { counterExample, ...counts } = explore(modelWithout(values.without));
  if (values.json === true) print(JSON.stringify({ rule: values.without, ...counts, counterExample }, undefined, 2));
  else {
    print(`Without ${values.without} (${RULES[values.without]}), ${counts.states} states:`);
    print(counterExample === undefined ? "no counter-example" : describeCounterExample(counterExample));
  }
  process.exitCode = counterExample === undefined ? 1 : 0;
} else {
  process.stderr.write(`--without ${JSON.stringify(values.without)}: ${RULE_NAMES.join(", ")} are the rules\n`);
  process.exitCode = 2;
}

function isRule(name: string): name is Rule {
  return Object.hasOwn(RULES, name);
}
