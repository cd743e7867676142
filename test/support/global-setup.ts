/** One Azurite for the whole test run; tests keep apart by random prefixes. */
import type { TestProject } from "vitest/node";
import { startAzurite } from "./azurite.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Connection string of the run's Azurite. */
    readonly azurite: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const azurite = await startAzurite();
  project.provide("azurite", azurite.connectionString);
  return () => azurite.stop();
}
