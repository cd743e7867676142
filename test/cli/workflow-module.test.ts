import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadWorkflowModule } from "../../src/cli/workflow-module.ts";

const WORKFLOW = `export const workflow = { name: "w", source: "/w", state: {}, events: {} };`;
const SUBSCRIPTION = `{ name: "mail", workflow, wants: () => true, handle() {} }`;
const GOOD = `${WORKFLOW} export const subscriptions = [${SUBSCRIPTION}];`;

let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "workflow-module-"));
  await writeFile(join(directory, "good.mjs"), GOOD);
  for (const [name, condition] of [
    ["for-all", "default"],
    ["import-only", "import"],
  ]) {
    const folder = join(directory, "node_modules", name!);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "package.json"), JSON.stringify({ name, type: "module", exports: { [condition!]: "./index.js" } }));
    await writeFile(join(folder, "index.js"), GOOD);
  }
});

afterAll(() => rm(directory, { recursive: true }));

describe("loading the workflow module", () => {
  test.each(["./good.mjs", "good.mjs", "for-all"])("%s is found from the working directory", async (specifier) => {
    const { workflow, subscriptions } = await loadWorkflowModule(specifier, directory);
    expect(workflow.name).toBe("w");
    expect(subscriptions.map(({ name }) => name)).toEqual(["mail"]);
  });

  test.each(["./missing.mjs", "missing-package", "/missing/file.mjs", ""])("%o can't be loaded", async (specifier) => {
    await expect(loadWorkflowModule(specifier, directory)).rejects.toMatchObject({ code: "invalid-option" });
  });

  test.each([
    { name: "throws", text: `throw new Error("no settings");`, message: /can't be loaded$/ },
    { name: "is no JavaScript", text: `{{`, message: /can't be loaded$/ },
    { name: "without workflow", text: `export const subscriptions = [];`, message: /does not export `workflow`/ },
    {
      name: "workflow is something else",
      text: `export const workflow = "shipments"; export const subscriptions = [];`,
      message: /defineWorkflow/,
    },
    {
      name: "workflow lacks its events",
      text: `export const workflow = { name: "w", source: "/w", state: {} };`,
      message: /defineWorkflow/,
    },
    { name: "without subscriptions", text: WORKFLOW, message: /does not export `subscriptions`/ },
    { name: "subscriptions is one", text: `${WORKFLOW} export const subscriptions = ${SUBSCRIPTION};`, message: /no array/ },
    {
      name: "one of them is a function",
      text: `${WORKFLOW} export const subscriptions = [${SUBSCRIPTION}, () => {}];`,
      message: /element 1/,
    },
    { name: "one of them is null", text: `${WORKFLOW} export const subscriptions = [null];`, message: /element 0/ },
    {
      name: "the same twice",
      text: `${WORKFLOW} export const subscriptions = [${SUBSCRIPTION}, ${SUBSCRIPTION}];`,
      message: /declared twice/,
    },
  ])("$name: refused, with the reason", async ({ name, text, message }) => {
    const file = `${name.replaceAll(" ", "-")}.mjs`;
    await writeFile(join(directory, file), text);
    await expect(loadWorkflowModule(`./${file}`, directory)).rejects.toMatchObject({
      code: "invalid-option",
      message: expect.stringMatching(message) as unknown,
    });
  });
});
