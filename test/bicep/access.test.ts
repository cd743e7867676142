/** C38: who may do what. Every role that is needed and no other, for each identity, on the smallest scope. */
import { beforeAll, describe, expect, test } from "vitest";
import { OPERATOR_GRANTS, PRODUCER_GRANTS, READER_GRANTS } from "./grants.ts";
import { compile, deployed, NO_CLI, WHY_SKIPPED, GROUP_ID, modulesOf, ofType, theOnly, type Resource, type Template } from "./template.ts";

/** The ids that Microsoft publishes. */
const ROLES: Readonly<Record<string, string>> = {
  "ba92f5b4-2d11-453d-a403-e96b0029c9fe": "Storage Blob Data Contributor",
  "b7e6dc6d-f1e8-4753-8033-0f276bb0955b": "Storage Blob Data Owner",
  "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1": "Storage Blob Data Reader",
  "974c5e8b-45b9-4653-ba55-5f855dd0fb88": "Storage Queue Data Contributor",
  "c6a89b2d-59bc-44d0-9896-0f6e12d7b80a": "Storage Queue Data Message Sender",
  "19e7f393-937e-4f77-808e-94535e297925": "Storage Queue Data Reader",
  "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3": "Storage Table Data Contributor",
  "76199698-9eea-4c19-bc75-cec21354c6b6": "Storage Table Data Reader",
  "3913510d-42f4-4e42-8a64-420c390055eb": "Monitoring Metrics Publisher",
};

const PRODUCER = "00000000-0000-0000-0000-000000000002";
const OTHER_PRODUCER = "00000000-0000-0000-0000-000000000005";
const READER = "00000000-0000-0000-0000-000000000003";
const OPERATOR = "00000000-0000-0000-0000-000000000001";

const ASSIGNMENT = "Microsoft.Authorization/roleAssignments";

describe.skipIf(NO_CLI)(`access${WHY_SKIPPED}`, () => {
  let template: Template;
  let resources: readonly Resource[];
  beforeAll(async () => {
    template = await compile();
    resources = await deployed({
      producers: [PRODUCER, OTHER_PRODUCER].map((id) => ({ id, type: "ServicePrincipal" })),
      operatorReaders: [{ id: READER, type: "Group" }],
      operators: [{ id: OPERATOR, type: "User" }],
    });
  });

  /** `role on scope` of everybody whose principal is this one, sorted. */
  function grantsOf(principal: string): readonly string[] {
    const account = theOnly(resources, "Microsoft.Storage/storageAccounts").id;
    return ofType(resources, ASSIGNMENT)
      .filter(({ properties }) => properties.principalId === principal)
      .map(({ id, properties }) => {
        const role = ROLES[properties.roleDefinitionId.split("/").at(-1)] ?? properties.roleDefinitionId;
        // Where the principal is known only later, the id is an expression that begins with the scope.
        const scope = /^\[extensionResourceId\('([^']+)'/.exec(id)?.[1] ?? id.slice(0, id.indexOf(`/providers/${ASSIGNMENT}`));
        const own =
          scope === account ? "account" : scope.replace(`${account}/`, "").replace(/^(?:blob|queue|table)Services\/default\//, "");
        return `${role} on ${own.replace(`${GROUP_ID}/`, "")}`;
      })
      .sort();
  }

  function worker(): string {
    return `[reference('${theOnly(resources, "Microsoft.ManagedIdentity/userAssignedIdentities").id}', '2024-11-30').principalId]`;
  }

  test("of the worker", () => {
    const insights = theOnly(resources, "Microsoft.Insights/components").name;
    expect(grantsOf(worker())).toEqual([
      `Monitoring Metrics Publisher on Microsoft.Insights/components/${insights}`,
      "Storage Blob Data Owner on account",
      "Storage Queue Data Contributor on queues/wake-ups",
      "Storage Queue Data Contributor on queues/wake-ups-poison",
      "Storage Table Data Contributor on account",
    ]);
  });

  test.each([PRODUCER, OTHER_PRODUCER])("of the producer %s", (producer) => {
    expect(grantsOf(producer)).toEqual(PRODUCER_GRANTS);
  });

  test("of an operator who looks", () => {
    expect(grantsOf(READER)).toEqual(READER_GRANTS);
  });

  test("of an operator who acts", () => {
    expect(grantsOf(OPERATOR)).toEqual(OPERATOR_GRANTS);
  });

  test("of nobody else", () => {
    const principals = new Set(ofType(resources, ASSIGNMENT).map(({ properties }) => properties.principalId));
    expect(principals).toEqual(new Set([worker(), PRODUCER, OTHER_PRODUCER, READER, OPERATOR]));
  });

  test("says what kind of principal it is: a new identity would not be found otherwise", () => {
    const kinds = new Map(ofType(resources, ASSIGNMENT).map(({ properties }) => [properties.principalId, properties.principalType]));
    expect(Object.fromEntries(kinds)).toEqual({
      [worker()]: "ServicePrincipal",
      [PRODUCER]: "ServicePrincipal",
      [OTHER_PRODUCER]: "ServicePrincipal",
      [READER]: "Group",
      [OPERATOR]: "User",
    });
  });

  describe("names of role assignments", () => {
    test("are made from scope, principal and role", () => {
      const assignments = [...modulesOf(template).values()].flatMap((each) =>
        Object.values(each.resources).filter(({ type }) => type === ASSIGNMENT),
      );
      expect(assignments.length).toBeGreaterThan(0);
      for (const { name, properties } of assignments) {
        const { principalId, roleDefinitionId } = properties as { readonly principalId: string; readonly roleDefinitionId: string };
        expect(name).toMatch(/^\[guid\(/);
        const role = /roleDefinitions', (.*)\)\]$/.exec(roleDefinitionId)?.[1];
        expect(name.endsWith(`, ${principalId.slice(1, -1)}, ${role})]`), `named ${name}`).toBe(true);
      }
    });

    test("differ for every assignment", () => {
      const ids = ofType(resources, ASSIGNMENT).map(({ id }) => id);
      expect(new Set(ids).size).toBe(ids.length);
    });
  });

  test("is there before the app: the host would start without it, and the first package could not be stored", () => {
    const { dependsOn = [] } = template.resources["functionApp"]!;
    expect(dependsOn).toEqual(expect.arrayContaining(["workerAccess", "monitoring", "storage", "identity"]));
    expect(template.resources["workerAccess"]!.dependsOn).toEqual(expect.arrayContaining(["storage", "identity"]));
  });
});
