/** The proof by exploration: all rules kept, no violation; one rule left out, a counter-example for each. */
import type { PartReport, ProveOptions, Violation } from "../report.ts";
import { describeCounterExample, exploreModel } from "./explore-model.ts";

export async function proveModel({ progress, budgetMs, small }: ProveOptions): Promise<PartReport> {
  const { states, transitions, scenarios, rules } = await exploreModel({
    ...(progress === undefined ? {} : { progress }),
    ...(budgetMs === undefined ? {} : { budgetMs }),
    ...(small === undefined ? {} : { small }),
  });
  const broken = scenarios.flatMap(({ name, counterExample }): readonly Violation[] => {
    if (counterExample === undefined) return [];
    const text = `${name}:\n${describeCounterExample(counterExample)}`;
    return [{ rule: counterExample.guarantee, text, replay: "npm run proof -- --only model" }];
  });
  const needless = rules.filter(({ counterExample }) => counterExample === undefined);
  const explored = scenarios.filter(({ complete }) => complete).map(({ name }) => name);
  return {
    figures: [
      ["states", states],
      ["transitions", transitions],
      ["scenarios explored to the end", explored.join("; ")],
      ...rules.map(({ rule, counterExample }): readonly [string, string] => [
        `without ${rule}`,
        counterExample === undefined ? "nothing found" : `${counterExample.guarantee} broken in ${counterExample.trace.length} steps`,
      ]),
    ],
    violations: [
      ...broken,
      ...needless.map(({ rule }) => ({
        rule: "model",
        text: `without ${rule} the model finds nothing wrong: it does not show what the rule is for`,
        replay: `npx node test/proof/model/main.ts --without ${rule}`,
      })),
    ],
    complete: small !== true && scenarios.every(({ complete }) => complete),
  };
}
