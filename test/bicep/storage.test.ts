/** The storage account of the template: names as in the code, nothing public, nothing deleted that waits. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { CONTAINERS, LEASE_CONTAINER, ORDERS_TABLE, POISON_QUEUE, WAKE_UP_QUEUE } from "../../src/core/names.ts";
import { deployed, FOLDER, NO_CLI, WHY_SKIPPED, ofType, theOnly, type Resource } from "./template.ts";

const STORAGE = "Microsoft.Storage/storageAccounts";
/** Where the deployed code lies. */
const DEPLOYMENT_CONTAINER = "app-package";

function lastNames(resources: readonly Resource[], type: string): readonly string[] {
  return ofType(resources, type).map(({ name }) => name.split("/").at(-1)!);
}

describe.skipIf(NO_CLI)(`the storage account${WHY_SKIPPED}`, () => {
  let open: readonly Resource[];
  let closed: readonly Resource[];
  beforeAll(async () => {
    [open, closed] = await Promise.all([
      deployed(),
      deployed({ isPrivate: true, softDeleteDays: 0, archiveLifecycleDays: 90, auditLifecycleDays: 91 }),
    ]);
  });

  test("has the table, queues and containers that the code uses, and one for the package", () => {
    expect(lastNames(open, `${STORAGE}/tableServices/tables`)).toEqual([ORDERS_TABLE]);
    expect(lastNames(open, `${STORAGE}/queueServices/queues`)).toEqual([WAKE_UP_QUEUE, POISON_QUEUE]);
    const containers = new Set(lastNames(open, `${STORAGE}/blobServices/containers`));
    expect(containers).toEqual(new Set([...CONTAINERS, LEASE_CONTAINER, DEPLOYMENT_CONTAINER]));
  });

  test("C38: queue names hold for the service, the host's name for the poison queue too", () => {
    expect(POISON_QUEUE).toBe(`${WAKE_UP_QUEUE}-poison`);
    for (const name of lastNames(open, `${STORAGE}/queueServices/queues`)) expect(name).toMatch(/^(?=.{3,63}$)[a-z0-9]+(?:-[a-z0-9]+)*$/);
  });

  test("takes no key and shows nothing to the public", () => {
    const { properties } = theOnly(open, STORAGE);
    expect(properties).toMatchObject({
      allowBlobPublicAccess: false,
      allowSharedKeyAccess: false,
      defaultToOAuthAuthentication: true,
      isHnsEnabled: false,
      minimumTlsVersion: "TLS1_2",
      supportsHttpsTrafficOnly: true,
    });
    for (const container of ofType(open, `${STORAGE}/blobServices/containers`)) expect(container.properties.publicAccess).toBe("None");
  });

  test("keeps no versions: every progress write would make one", () => {
    for (const resources of [open, closed]) {
      expect(theOnly(resources, `${STORAGE}/blobServices`).properties.isVersioningEnabled).toBe(false);
    }
  });

  test("soft delete can be switched off", () => {
    expect(theOnly(open, `${STORAGE}/blobServices`).properties.deleteRetentionPolicy).toEqual({ enabled: true, days: 7 });
    expect(theOnly(closed, `${STORAGE}/blobServices`).properties.deleteRetentionPolicy).toEqual({ enabled: false });
  });

  test("F7: lifecycle rules see the archive and the audit log, and nothing that waits or that the host keeps", () => {
    const { rules } = theOnly(closed, `${STORAGE}/managementPolicies`).properties.policy;
    expect(rules.map(({ definition }: { definition: unknown }) => definition)).toEqual([
      {
        actions: { baseBlob: { delete: { daysAfterModificationGreaterThan: 90 } } },
        filters: { blobTypes: ["blockBlob"], prefixMatch: ["archive/"] },
      },
      {
        actions: { baseBlob: { delete: { daysAfterModificationGreaterThan: 91 } } },
        filters: { blobTypes: ["blockBlob"], prefixMatch: ["audit/"] },
      },
    ]);
    const prefixes: readonly string[] = rules.flatMap((rule: { definition: { filters: { prefixMatch: readonly string[] } } }) => {
      return rule.definition.filters.prefixMatch;
    });
    const untouchable = [
      "events",
      "dead",
      "payloads",
      LEASE_CONTAINER,
      DEPLOYMENT_CONTAINER,
      "azure-webjobs-hosts",
      "azure-webjobs-secrets",
    ];
    for (const container of untouchable) {
      for (const prefix of prefixes) expect(`${container}/any/blob.json`.startsWith(prefix), `${prefix} on ${container}`).toBe(false);
    }
  });

  test("F7: lifecycle rules wait for much longer than the cleanup, which keeps nothing for more than 30 days", () => {
    for (const { definition } of theOnly(open, `${STORAGE}/managementPolicies`).properties.policy.rules) {
      expect(definition.actions.baseBlob.delete.daysAfterModificationGreaterThan).toBe(365);
    }
    const main = readFileSync(join(FOLDER, "main.bicep"), "utf8");
    for (const name of ["archiveLifecycleDays", "auditLifecycleDays"]) {
      expect(main).toMatch(new RegExp(`^@minValue\\(90\\)\n@maxValue\\(\\d+\\)\nparam ${name} int = 365$`, "m"));
    }
  });

  test("is reached over private endpoints alone where that is asked for", () => {
    expect(ofType(open, "Microsoft.Network/privateEndpoints")).toEqual([]);
    expect(theOnly(open, STORAGE).properties.publicNetworkAccess).toBe("Enabled");

    const account = theOnly(closed, STORAGE);
    expect(account.properties).toMatchObject({ publicNetworkAccess: "Disabled", networkAcls: { bypass: "None", defaultAction: "Deny" } });
    const endpoints = ofType(closed, "Microsoft.Network/privateEndpoints").map(
      ({ properties }) => properties.privateLinkServiceConnections[0].properties,
    );
    expect(endpoints).toEqual(["blob", "queue", "table"].map((service) => ({ groupIds: [service], privateLinkServiceId: account.id })));
    const zones = ofType(closed, "Microsoft.Network/privateDnsZones").map(({ name }) => name);
    const suffix = "environment().suffixes.storage";
    expect(zones).toEqual(["blob", "queue", "table"].map((service) => `[format('privatelink.{0}.{1}', '${service}', ${suffix})]`));
    const [app] = theOnly(closed, "Microsoft.Network/virtualNetworks").properties.subnets;
    expect(app.properties.delegations[0].properties.serviceName).toBe("Microsoft.App/environments");
    expect(theOnly(closed, "Microsoft.Web/sites").properties.virtualNetworkSubnetId).toMatch(/\/subnets\/app$/);
  });
});
