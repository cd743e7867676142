/** The Bicep files themselves: what the real compiler says, and what every one of them has. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { bicepFiles, diagnose, lint } from "./diagnose.ts";
import { bicepCli, compile, NO_CLI, WHY_SKIPPED, FOLDER, inCopy, modulesOf, type Template } from "./template.ts";

describe.skipIf(NO_CLI)(`the Bicep files${WHY_SKIPPED}`, () => {
  let template: Template;
  beforeAll(async () => {
    template = await compile();
  });

  test("compile without an error, a warning or a hint, and are formatted", async () => {
    expect(await diagnose(bicepCli(), FOLDER)).toEqual([]);
  });

  test("with a wrong property name are refused, whatever the file", async () => {
    const wrong = [
      ["modules/storage.bicep", "allowSharedKeyAccess:", "allowSharedKeyAcess:"],
      ["modules/function-app.bicep", "instanceMemoryMB: i", "instanceMemory: i"],
      ["modules/alerts.bicep", "failingPeriods:", "failingPeriod:"],
      ["modules/access.bicep", "principalType: each", "principleType: each"],
      ["env/prod.bicepparam", "param isPrivate", "param private"],
    ] as const;
    await inCopy(async (folder) => {
      for (const [file, before, after] of wrong) {
        const text = await readFile(join(folder, file), "utf8");
        expect(text).toContain(before);
        await writeFile(join(folder, file), text.replace(before, after));
      }
      const findings = await lint(bicepCli(), folder);
      for (const [file, , after] of wrong) {
        const name = after.split(/[ :]/).find((word) => word !== "param")!;
        expect(
          findings.some((finding) => finding.includes(file) && finding.includes(`"${name}"`)),
          `${file} ${name}`,
        ).toBe(true);
      }
    });
  });

  test("describe every parameter and every output", () => {
    const undescribed = [...allTemplates(template)].flatMap(([name, each]) =>
      Object.entries({ ...each.parameters, ...each.outputs })
        .filter(([, { metadata }]) => !metadata?.description)
        .map(([own]) => `${name} ${own}`),
    );
    expect(undescribed).toEqual([]);
  });

  test("take every module from this folder: nothing is fetched when they are compiled", async () => {
    for (const file of await bicepFiles(FOLDER)) expect(await readFile(file, "utf8"), `in ${file}`).not.toMatch(/'(?:br|ts)[:/]/);
  });
});

function allTemplates(template: Template): ReadonlyMap<string, Template> {
  return new Map([["main", template], ...modulesOf(template)]);
}
