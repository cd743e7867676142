/** The arrows between the rooms (design §9): what a file may import. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { ROOMS } from "./support/rooms.ts";

const SOURCE = fileURLToPath(new URL("../src", import.meta.url));

/** Packages that a room may import; everything else is refused. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  core: ["ulid", "@standard-schema/spec"],
  system: ["@opentelemetry/api"],
  storage: ["@azure/core-auth", "@azure/core-rest-pipeline", "@azure/data-tables", "@azure/storage-blob", "@azure/storage-queue"],
  producer: [],
  worker: ["cockatiel"],
  operations: [],
  shipment: ["zod"],
  webhook: ["undici", "ipaddr.js", "standardwebhooks", "@opentelemetry/api"],
  ".": [],
  cli: ["commander", "@azure/identity"],
  functions: [
    "@azure/functions",
    "@azure/identity",
    "@azure/monitor-opentelemetry-exporter",
    "@opentelemetry/api",
    "@opentelemetry/resources",
    "@opentelemetry/sdk-metrics",
    "@opentelemetry/sdk-trace-node",
    "zod",
  ],
  local: ["commander", "azurite", "fflate", "ignore", "publint", "zod"],
};

/** What would give a pure room I/O, a clock or chance. */
const IMPURE = [
  /\bDate\.now\b/,
  /\bnew Date\(\)/,
  /\bMath\.random\b/,
  /\bperformance\.now\b/,
  /\bsetTimeout\b/,
  /\bsetInterval\b/,
  /\bcrypto\b/,
  /\bprocess\./,
  /"node:/,
  /\bfetch\(/,
];

const IMPORT = /^(?:import|export) (?:type )?(?:[\w*{][^;"]*?from )?"([^"]+)";$|\bimport\(\s*"([^"]+)"/gm;

interface SourceFile {
  readonly path: string;
  readonly room: string;
  readonly text: string;
  readonly imports: readonly string[];
}

const files: readonly SourceFile[] = readdirSync(SOURCE, { recursive: true, encoding: "utf8" })
  .filter((path) => path.endsWith(".ts"))
  .map((path) => {
    const text = readFileSync(resolve(SOURCE, path), "utf8");
    const imports = [...text.matchAll(IMPORT)].map((match) => (match[1] ?? match[2])!);
    return { path, room: roomOf(path), text, imports };
  });

function roomOf(path: string): string {
  const [first, rest] = path.split(/[\\/]/, 2);
  return rest === undefined ? "." : first!;
}

describe("§9: the rooms", () => {
  test("every folder is a known room", () => {
    expect(new Set(files.map(({ room }) => room))).toEqual(new Set(Object.keys(ROOMS)));
  });

  test.each(files.map((file) => [file.path, file] as const))("%s imports only what its room may", (path, { room, imports }) => {
    for (const specifier of imports) {
      if (specifier.startsWith("node:")) continue;
      if (specifier.startsWith(".")) {
        const target = roomOf(relative(SOURCE, resolve(SOURCE, dirname(path), specifier)));
        if (target !== room) expect(ROOMS[room], `${path} imports ${specifier}`).toContain(target);
      } else {
        const name = specifier
          .split("/")
          .slice(0, specifier.startsWith("@") ? 2 : 1)
          .join("/");
        expect(PACKAGES[room], `${path} imports ${specifier}`).toContain(name);
      }
    }
  });

  test.each(files.filter(({ room }) => room === "core").map((file) => [file.path, file] as const))("%s is pure", (_path, { text }) => {
    const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");
    for (const pattern of IMPURE) expect(code).not.toMatch(pattern);
  });
});
