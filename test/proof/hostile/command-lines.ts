/** Command lines: through the table of commands in this process, and some as processes of their own. */
import * as fc from "fast-check";
import { CommanderError, type Command } from "commander";
import { createProgram } from "../../../src/cli/program.ts";
import { reportUsageError } from "../../../src/cli/usage-error.ts";
import type { Kind } from "./kinds.ts";
import { Harm } from "./scene.ts";
import { texts } from "./texts.ts";

function all(command: Command): readonly Command[] {
  return [command, ...command.commands.flatMap(all)];
}

const COMMANDS = all(createProgram("0.0.0"));
const PATHS = COMMANDS.map((command) => {
  const path: string[] = [];
  for (let each: Command = command; each.parent !== null; each = each.parent) path.unshift(each.name());
  return path;
});
const FLAGS = [...new Set(COMMANDS.flatMap((command) => command.options.flatMap(({ long, short }) => [long, short])))].filter(
  (flag) => flag !== undefined && flag !== null,
);

const values = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      "idle",
      "100",
      "audit",
      "--",
      "-",
      "=",
      "0",
      "1",
      "60s",
      "5m",
      "7d",
      "1e3",
      "-1",
      "99999999999",
      "http://127.0.0.1:1",
    ),
  },
  { weight: 2, arbitrary: texts },
);
const words = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...FLAGS) },
  { weight: 3, arbitrary: values },
  { weight: 1, arbitrary: fc.tuple(fc.constantFrom(...FLAGS), values).map(([flag, value]) => `${flag}=${value}`) },
  { weight: 1, arbitrary: fc.constantFrom(...PATHS.flat()) },
);

export const lines: fc.Arbitrary<readonly string[]> = fc
  .tuple(fc.constantFrom(...PATHS), fc.array(words, { maxLength: 6 }))
  .map(([path, rest]) => [...path, ...rest]);

export const commandLines: Kind<readonly string[]> = {
  name: "command lines",
  share: 10_000,
  together: 1,
  inputs: lines,
  async tryOut([line]) {
    const program = createProgram("0.0.0", line);
    // What the commands do with options that are well formed is for real processes: here it is only seen that they are.
    for (const command of all(program)) if (command.commands.length === 0) command.action(() => undefined);
    const printed = await capturing(async () => {
      try {
        await program.parseAsync([...line!], { from: "user" });
      } catch (error) {
        if (!(error instanceof CommanderError)) throw error;
        reportUsageError(program, error, line!);
      }
    });
    if (/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e]/.test(printed))
      throw new Harm(`what is printed acts on a terminal: ${JSON.stringify(printed)}`);
    if (/^\s+at .*:\d+:\d+/m.test(printed)) throw new Harm(`a stack is printed: ${printed}`);
  },
};

/** What `act` prints on both streams. */
async function capturing(act: () => Promise<void>): Promise<string> {
  const printed: string[] = [];
  const streams = [process.stdout, process.stderr];
  const real = streams.map((stream) => Object.getOwnPropertyDescriptor(stream, "write"));
  for (const stream of streams)
    Object.defineProperty(stream, "write", { value: (text: string) => printed.push(text) > 0, configurable: true });
  try {
    await act();
  } finally {
    streams.forEach((stream, index) => {
      const own = real[index];
      if (own === undefined) Reflect.deleteProperty(stream, "write");
      else Object.defineProperty(stream, "write", own);
    });
  }
  return printed.join("");
}
