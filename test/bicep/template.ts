/** The template as the Bicep CLI compiles it, and what it would deploy. */
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { vi } from "vitest";
import { findBicep, runBicep, type BicepCli } from "./bicep-cli.ts";

export const FOLDER = fileURLToPath(new URL("../../bicep", import.meta.url));

// Each run of the CLI is a process of its own that starts slowly.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const found = await findBicep();

/** Where there is no Bicep CLI, tests of the template are skipped … */
export const NO_CLI: boolean = typeof found === "string";
/** … and their names say why: ends the name of each `describe`. */
export const WHY_SKIPPED: string = typeof found === "string" ? ` (${found})` : "";

export function bicepCli(): BicepCli {
  if (typeof found === "string") throw new Error(found);
  return found;
}

/** A compiled file. Nested ones are templates of their own inside resources of type `Microsoft.Resources/deployments`. */
export interface Template {
  readonly parameters: Readonly<Record<string, { readonly type?: string; readonly $ref?: string; readonly metadata?: Description }>>;
  readonly outputs: Readonly<Record<string, { readonly metadata?: Description }>>;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly resources: Readonly<Record<string, TemplateResource>>;
}

export interface TemplateResource {
  readonly type: string;
  readonly existing?: boolean;
  readonly scope?: string;
  readonly name: string;
  readonly dependsOn?: readonly string[];
  readonly properties: Readonly<Record<string, unknown>>;
}

interface Description {
  readonly description?: string;
}

export async function compile(): Promise<Template> {
  const { stdout, stderr } = await runBicep(bicepCli(), ["build", "--stdout", "--no-restore", join(FOLDER, "main.bicep")]);
  if (stderr.trim() !== "") throw new Error(stderr);
  return JSON.parse(stdout) as Template;
}

/** The modules of a compiled file, by their symbols. */
export function modulesOf(template: Template): ReadonlyMap<string, Template> {
  return new Map(
    Object.entries(template.resources)
      .filter(([, { type }]) => type === "Microsoft.Resources/deployments")
      .map(([symbol, { properties }]) => [symbol, properties["template"] as Template]),
  );
}

/** A resource with all expressions worked out; what only the service knows stays an expression in brackets. */
export interface Resource {
  readonly id: string;
  readonly type: string;
  readonly name: string;
  readonly tags?: Readonly<Record<string, string>>;
  // oxlint-disable-next-line typescript/no-explicit-any -- as many shapes as there are types of resources
  readonly properties: any;
}

export const SUBSCRIPTION = "00000000-0000-0000-0000-0000000000bb";
const TENANT = "00000000-0000-0000-0000-0000000000aa";
const GROUP = "outbox-group";
/** Begins the id of everything that is deployed. */
export const GROUP_ID: string = `/subscriptions/${SUBSCRIPTION}/resourceGroups/${GROUP}/providers`;

/** What would be deployed into an empty resource group with these parameters. */
export function deployed(parameters: Readonly<Record<string, unknown>> = {}): Promise<readonly Resource[]> {
  const lines = Object.entries({ environmentName: "test", ...parameters }).map(
    ([name, value]) => `param ${name} = json('''${JSON.stringify([value])}''')[0]`,
  );
  return inCopy(async (folder) => {
    const file = join(folder, "test.bicepparam");
    await writeFile(file, ["using 'main.bicep'", ...lines, ""].join("\n"));
    return snapshot(file);
  });
}

/** What would be deployed with one of the parameter files. */
export function deployedBy(parameterFile: string): Promise<readonly Resource[]> {
  return inCopy((folder) => snapshot(join(folder, parameterFile)));
}

async function snapshot(file: string): Promise<readonly Resource[]> {
  const place = ["--tenant-id", TENANT, "--subscription-id", SUBSCRIPTION, "--resource-group", GROUP, "--location", "westeurope"];
  const { stderr } = await runBicep(bicepCli(), ["snapshot", file, "--mode", "overwrite", ...place]);
  if (stderr.trim() !== "") throw new Error(stderr);
  const text = await readFile(file.replace(/\.bicepparam$/, ".snapshot.json"), "utf8");
  const { predictedResources, diagnostics } = JSON.parse(text) as {
    readonly predictedResources: readonly Resource[];
    readonly diagnostics: readonly unknown[];
  };
  if (diagnostics.length > 0) throw new Error(JSON.stringify(diagnostics));
  return predictedResources;
}

/** The CLI puts snapshots beside the file. */
export async function inCopy<Result>(use: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), "bicep-test-"));
  try {
    await cp(FOLDER, folder, { recursive: true });
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

export function ofType(resources: readonly Resource[], type: string): readonly Resource[] {
  return resources.filter((resource) => resource.type === type);
}

/** The only one of its type. */
export function theOnly(resources: readonly Resource[], type: string): Resource {
  const [first, ...more] = ofType(resources, type);
  if (first === undefined || more.length > 0) throw new Error(`${more.length + (first === undefined ? 0 : 1)} resources of type ${type}`);
  return first;
}
