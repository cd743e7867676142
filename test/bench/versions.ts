import { readFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import type { Versions } from "./report.ts";

const PACKAGES = ["azurite", "@azure/data-tables", "@azure/storage-blob", "@azure/storage-queue"] as const;

export function readVersions(): Versions {
  const versionOf = (name: string): string => {
    const file = new URL(`../../node_modules/${name}/package.json`, import.meta.url);
    return (JSON.parse(readFileSync(file, "utf8")) as { readonly version: string }).version;
  };
  return {
    node: process.versions.node,
    packages: Object.fromEntries(PACKAGES.map((name) => [name, versionOf(name)])),
    cores: availableParallelism(),
    processor: cpus()[0]?.model.trim() ?? "unknown",
  };
}
