import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { configDefaults, defineConfig, type ViteUserConfig } from "vitest/config";
import { ACCOUNT_VARIABLE } from "./support/account-variable.ts";
import { LongestFirst } from "./support/longest-first.ts";

const config: ViteUserConfig = defineConfig({
  root: fileURLToPath(new URL("..", import.meta.url)),
  test: {
    include: ["test/**/*.test.ts"],
    exclude: [...configDefaults.exclude, ...(process.env[ACCOUNT_VARIABLE] === undefined ? ["test/contract/account.test.ts"] : [])],
    globalSetup: ["test/support/global-setup.ts"],
    pool: "forks",
    // Files that start processes wait most of the time: one more than the two processors of a small machine.
    maxWorkers: Math.max(3, availableParallelism()),
    sequence: { sequencer: LongestFirst },
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
});

export default config;
