/** What proves the product at full size and takes too long for every test run: `npm run proof`. */
import { defineConfig, mergeConfig, type ViteUserConfig } from "vitest/config";
import tests from "./vitest.config.ts";

const config: ViteUserConfig = mergeConfig(
  { ...tests, test: { ...tests.test, include: [] } },
  defineConfig({ test: { include: ["test/**/*.proof.ts"], fileParallelism: false, reporters: ["verbose"] } }),
);

export default config;
