/** Test files that take longest start first, so that no processor idles at the end while one of them still runs. */
import { BaseSequencer, type TestSpecification } from "vitest/node";

const LONGEST = [
  "functions/deployed",
  "local/main",
  "end-to-end/processes",
  "end-to-end/crash-loop",
  "cli/operations",
  "cli/work",
  "end-to-end/fan-out",
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`));
      return at < 0 ? LONGEST.length : at;
    };
    return (await super.sort(files)).toSorted((left, right) => rank(left) - rank(right));
  }
}
