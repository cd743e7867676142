/** What is deployed: what runs, and nothing else. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { FUNCTION_TIMEOUT_MS } from "../../src/functions/app/function-timeout.ts";
import { ROUNDS_AT_ONCE } from "../../src/functions/app/wake-up-round.ts";
import { secondsOf } from "./host/queue-listener.ts";
import type { UnpackedApp } from "./host/unpacked-app.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

interface Lock {
  readonly packages: Readonly<Record<string, { readonly dev?: boolean; readonly devOptional?: boolean }>>;
}

interface HostJson {
  readonly telemetryMode: string;
  readonly functionTimeout: string;
  readonly extensions: { readonly queues: Readonly<Record<string, unknown>>; readonly http: { readonly routePrefix: string } };
}

export function packageSuite(appOf: () => UnpackedApp): void {
  const json = <Document>(path: string): Document => JSON.parse(readFileSync(`${appOf().folder}/${path}`, "utf8")) as Document;

  describe("the zip", () => {
    test("top level: two files and two folders", () => {
      const top = new Set(appOf().files.map((path) => path.split("/")[0]));
      expect(top).toEqual(new Set(["dist", "host.json", "node_modules", "package.json"]));
    });

    test("no sources, declarations, source maps, tests of our own, or dot files", () => {
      expect(appOf().files.filter((path) => /\.(?:map|[mc]?ts)$|(?:^|\/)\.|^dist\/(?:local|test)\//.test(path))).toEqual([]);
    });

    test("every package in it is one that the lock file has for production", () => {
      const { packages } = JSON.parse(readFileSync(`${ROOT}/package-lock.json`, "utf8")) as Lock;
      const folders = new Set(appOf().files.flatMap((path) => /^node_modules\/.*?(?=\/package\.json$)/.exec(path)?.[0] ?? []));
      const installed = [...folders].filter((folder) => packages[folder] !== undefined);
      expect(installed.length).toBeGreaterThan(20);
      expect(installed.filter((folder) => packages[folder]!.dev === true || packages[folder]!.devOptional === true)).toEqual([]);
    });

    test("package.json runs no scripts and names no development dependency", () => {
      const manifest = json<Record<string, unknown>>("package.json");
      expect(Object.keys(manifest)).toEqual(["name", "version", "license", "type", "engines", "main", "dependencies", "private"]);
    });

    test("the command tells content and size", () => {
      const { printed, files, zip } = appOf();
      expect(printed).toMatch(/^ +1 files {2}host\.json$/m);
      expect(printed).toMatch(/^ +\d+ files {2}dist\/functions\/$/m);
      expect(printed).toMatch(/^ +\d+ files {2}node_modules\/@azure\/functions\/$/m);
      expect(printed).toContain(`functions.zip: ${files.length} files, ${(zip.byteLength / 1e6).toFixed(1)} MB`);
    });

    test("two of the same sources are the same bytes: sorted names, one time", () => {
      const { files, zip } = appOf();
      expect(files).toEqual([...files].sort());
      // The DOS time and date of each local header, as the format has them: 2000-01-01 00:00:00.
      const view = new DataView(zip.buffer, zip.byteOffset);
      expect([view.getUint32(0, true), view.getUint16(10, true), view.getUint16(12, true)]).toEqual([
        0x04034b50,
        0,
        (20 << 9) | (1 << 5) | 1,
      ]);
    });
  });

  describe("host.json", () => {
    test("C23: raw message text, as the producer sends it", () => {
      expect(json<HostJson>("host.json").extensions.queues["messageEncoding"]).toBe("none");
    });

    test("G4: the worker is told how many orders an instance handles at once", () => {
      const { batchSize, newBatchThreshold } = json<HostJson>("host.json").extensions.queues;
      expect(Number(batchSize) + Number(newBatchThreshold)).toBe(ROUNDS_AT_ONCE);
    });

    test("C33: a failed message comes back after the lease time, five times, before it is poison", () => {
      const { visibilityTimeout, maxDequeueCount } = json<HostJson>("host.json").extensions.queues;
      expect(secondsOf(visibilityTimeout as string)).toBe(30);
      expect(maxDequeueCount).toBe(5);
    });

    test("functionTimeout is what subscriptions are checked against", () => {
      expect(secondsOf(json<HostJson>("host.json").functionTimeout) * 1_000).toBe(FUNCTION_TIMEOUT_MS);
    });

    test("the host exports by OpenTelemetry", () => {
      expect(json<HostJson>("host.json").telemetryMode).toBe("OpenTelemetry");
    });
  });
}
