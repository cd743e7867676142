/** The function app of the template: identities only, settings in one place (C41), a host id of its own (C42). */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, test } from "vitest";
import { bicepFiles } from "./diagnose.ts";
import {
  compile,
  deployed,
  deployedBy,
  NO_CLI,
  WHY_SKIPPED,
  FOLDER,
  modulesOf,
  ofType,
  theOnly,
  type Resource,
  type Template,
} from "./template.ts";

const FUNCTIONS = fileURLToPath(new URL("../../src/functions", import.meta.url));

const SETTINGS = "Microsoft.Web/sites/config";

describe.skipIf(NO_CLI)(`the function app${WHY_SKIPPED}`, () => {
  let template: Template;
  let resources: readonly Resource[];
  let production: readonly Resource[];
  beforeAll(async () => {
    [template, resources, production] = await Promise.all([
      compile(),
      deployed({ alwaysReadyInstances: 3, nodeVersion: "24", operationsClientId: "00000000-0000-0000-0000-0000000000cc" }),
      deployedBy("env/prod.bicepparam"),
    ]);
  });

  /** What the template sets itself, by name; values are expressions where only the service knows them. */
  function ownSettings(): ReadonlyMap<string, string> {
    const { properties } = ofType(resources, SETTINGS).find(({ name }) => name.endsWith("/appsettings"))!;
    const own = /^\[union\(parameters\('extraAppSettings'\), createObject\((.*)\)\)\]$/.exec(properties as string)?.[1];
    return new Map(inPairs(splitArguments(own!)).map(([name, value]) => [name.slice(1, -1), value.replace(/^'(.*)'$/, "$1")]));
  }

  test("runs as its own identity on a Flex Consumption plan", () => {
    const identity = theOnly(resources, "Microsoft.ManagedIdentity/userAssignedIdentities").id;
    const { properties, ...site } = theOnly(resources, "Microsoft.Web/sites");
    expect(site).toMatchObject({
      kind: "functionapp,linux",
      identity: { type: "UserAssigned", userAssignedIdentities: { [identity]: {} } },
    });
    expect(theOnly(resources, "Microsoft.Web/serverfarms")).toMatchObject({ sku: { name: "FC1", tier: "FlexConsumption" } });
    expect(properties).toMatchObject({
      httpsOnly: true,
      keyVaultReferenceIdentity: identity,
      siteConfig: { ftpsState: "Disabled", minTlsVersion: "1.2" },
    });
    expect(properties.functionAppConfig).toMatchObject({
      deployment: {
        storage: {
          type: "blobContainer",
          authentication: { type: "UserAssignedIdentity", userAssignedIdentityResourceId: identity },
        },
      },
      runtime: { name: "node", version: "24" },
      scaleAndConcurrency: {
        alwaysReady: [{ name: "function:wakeUps", instanceCount: 3 }],
        instanceMemoryMB: 2048,
        maximumInstanceCount: 40,
      },
    });
    expect(properties.functionAppConfig.deployment.storage.value).toContain("'app-package'");
  });

  test("has instances that the rounds of host.json fit into", async () => {
    expect(template.parameters["instanceMemoryMB"]).toMatchObject({ allowedValues: [2048, 4096], defaultValue: 2048 });
    const dev = theOnly(await deployedBy("env/dev.bicepparam"), "Microsoft.Web/sites").properties.functionAppConfig;
    expect(dev.scaleAndConcurrency.instanceMemoryMB).toBe(2048);
  });

  test("always-ready instances are for a function that the code has", () => {
    const registered = functionSources().flatMap((text) => [...text.matchAll(/\bapp\.storageQueue\("([^"]+)"/g)].map((match) => match[1]));
    expect(registered).toContain("wakeUps");
  });

  test("C41: has all its settings from one place, which says so", () => {
    const { siteConfig } = theOnly(resources, "Microsoft.Web/sites").properties;
    expect(siteConfig).not.toHaveProperty("appSettings");
    expect(siteConfig).not.toHaveProperty("connectionStrings");
    const configs = [...modulesOf(template).values()]
      .flatMap((each) => Object.values(each.resources))
      .filter(({ type }) => type === SETTINGS);
    expect(configs.map(({ name }) => /'([^']+)'\)\]$/.exec(name)?.[1])).toEqual(["appsettings", "authsettingsV2"]);
  });

  test("C41: sets these, all by name of an identity, and nothing that Flex Consumption keeps elsewhere", () => {
    const account = theOnly(resources, "Microsoft.Storage/storageAccounts").name;
    const clientId = `reference('${theOnly(resources, "Microsoft.ManagedIdentity/userAssignedIdentities").id}', '2024-11-30').clientId`;
    expect(Object.fromEntries(ownSettings())).toEqual({
      AzureWebJobsStorage__accountName: account,
      AzureWebJobsStorage__credential: "managedidentity",
      AzureWebJobsStorage__clientId: clientId,
      AzureFunctionsWebHost__hostid: expect.stringMatching(/^outbox-[a-z0-9]{13}$/),
      APPLICATIONINSIGHTS_CONNECTION_STRING: expect.stringMatching(/^reference\('.*components.*\)\.ConnectionString$/),
      APPLICATIONINSIGHTS_AUTHENTICATION_STRING: `format('ClientId={0};Authorization=AAD', ${clientId})`,
      ORDERED_OUTBOX_ACCOUNT: account,
      ORDERED_OUTBOX_CLIENT_ID: clientId,
    });
  });

  test("sets what the code reads", () => {
    const source = functionSources().join("\n");
    for (const name of ["ORDERED_OUTBOX_ACCOUNT", "ORDERED_OUTBOX_CLIENT_ID"]) expect(source).toContain(`"${name}"`);
    for (const name of ["accountName", "clientId"]) expect(source).toContain(`\${CONNECTION}__${name}`);
  });

  test("C42: apps whose names agree in the first 32 characters have host ids of their own", () => {
    const expression = modulesOf(template).get("functionApp")!.resources["appSettings"]!.properties as unknown as string;
    // From the whole name and the resource group, not from the beginning of the name.
    const hostId = "format('outbox-{0}', uniqueString(resourceGroup().id, parameters('name')))";
    expect(expression).toContain(`'AzureFunctionsWebHost__hostid', ${hostId}`);
    // What the host takes: at most 32 lower-case letters, digits and single dashes.
    expect(ownSettings().get("AzureFunctionsWebHost__hostid")).toMatch(/^(?=.{1,32}$)[a-z0-9]+(?:-[a-z0-9]+)*$/);
  });

  test("the HTTP functions can be put behind Entra", () => {
    const auth = ofType(resources, SETTINGS).find(({ name }) => name.endsWith("/authsettingsV2"))!;
    expect(auth.properties).toMatchObject({
      globalValidation: { requireAuthentication: true, unauthenticatedClientAction: "Return401" },
      platform: { enabled: true },
    });
    expect(ofType(production, SETTINGS).map(({ name }) => name.split("/").at(-1))).toEqual(["appsettings"]);
  });

  test("azd finds the app by its tag", () => {
    const azure = readFileSync(new URL("../../azure.yaml", import.meta.url), "utf8");
    const service = theOnly(resources, "Microsoft.Web/sites").tags!["azd-service-name"]!;
    expect(azure).toMatch(new RegExp(`^services:\\n  ${service}:$`, "m"));
    expect(azure).toMatch(/^ {2}path: bicep$/m);
    for (const { tags } of [...resources].filter((resource) => resource.tags !== undefined)) expect(tags!["azd-env-name"]).toBe("test");
  });

  test("no key and no connection string of an account is read, set or given out, and no output is secret", async () => {
    for (const file of await bicepFiles(FOLDER)) {
      const text = readFileSync(file, "utf8").replace(/\/\/.*$/gm, "");
      expect(text, `in ${file}`).not.toMatch(
        /\blist(?:Keys|AccountSas|ServiceSas|Secrets)?\w*\(|AccountKey|SharedAccess|DefaultEndpointsProtocol/i,
      );
    }
    const compiled = JSON.stringify(template);
    expect(compiled).not.toMatch(/list[A-Z]\w*\(|AccountKey=|StorageAccountConnectionString|'AzureWebJobsStorage'/);
    expect(Object.keys(template.outputs)).toEqual([
      "functionAppName",
      "functionAppUrl",
      "storageAccountName",
      "storageEndpoints",
      "storageNames",
      "storageAccountId",
      "workerPrincipalId",
      "networkId",
    ]);
  });
});

function functionSources(): readonly string[] {
  return readdirSync(FUNCTIONS, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => readFileSync(join(FUNCTIONS, name), "utf8"));
}

/** Arguments of a template function: split at commas outside of quotes and parentheses. */
function splitArguments(text: string): readonly string[] {
  const parts: string[] = [];
  let [depth, quoted, start] = [0, false, 0];
  for (const [index, character] of text.split("").entries()) {
    if (character === "'") quoted = !quoted;
    if (quoted) continue;
    if (character === "(") depth++;
    if (character === ")") depth--;
    if (character !== "," || depth > 0) continue;
    parts.push(text.slice(start, index).trim());
    start = index + 1;
  }
  return [...parts, text.slice(start).trim()];
}

function inPairs(items: readonly string[]): readonly (readonly [string, string])[] {
  return items.flatMap((item, index) => (index % 2 === 0 ? [[item, items[index + 1]!] as const] : []));
}
