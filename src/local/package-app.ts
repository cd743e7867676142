/**
 * `npm run package`: the zip that Azure Functions runs. Built, staged and zipped here, so that what is deployed is what was tested: no build on
 * the server, no development dependency, the same bytes for the same sources.
 *
 * argv: folder for the staged app and the zip; default `build`.
 */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { zipSync, type Zippable } from "fflate";
import ignore from "ignore";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** The manifest fields that mean something to the Functions worker and to npm. */
const MANIFEST = ["name", "version", "license", "type", "engines", "main", "dependencies"];
/** The format knows local time only, so this is the same everywhere. */
const FILE_TIME = new Date(2000, 0, 1);
const UNIX = 3;
const READABLE_FILE = 0o100644 << 16;

const folder = resolve(process.argv[2] ?? join(ROOT, "build"));
const stage = join(folder, "functions");
const zipFile = join(folder, "functions.zip");

stageApp();
const files = pruneStage();
const zip = zipFiles(files);
writeFileSync(zipFile, zip);
report(files, zip.byteLength);

function stageApp(): void {
  rmSync(stage, { recursive: true, force: true });
  mkdirSync(stage, { recursive: true });
  const build = [
    "-p",
    "src/tsconfig.build.json",
    "--outDir",
    join(stage, "dist"),
    "--declaration",
    "false",
    "--isolatedDeclarations",
    "false",
  ];
  run(join(ROOT, "node_modules", ".bin", "tsc"), build, ROOT);
  cpSync(join(ROOT, "host.json"), join(stage, "host.json"));
  cpSync(join(ROOT, "package-lock.json"), join(stage, "package-lock.json"));
  cpSync(join(ROOT, "package.json"), join(stage, "package.json"));
  run("npm", ["ci", "--omit=dev", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error"], stage);
  const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Record<string, unknown>;
  const kept = Object.fromEntries(MANIFEST.map((name) => [name, manifest[name]]));
  writeFileSync(join(stage, "package.json"), `${JSON.stringify({ ...kept, private: true }, null, 2)}\n`);
}

function run(command: string, args: readonly string[], cwd: string): void {
  const { status, error } = spawnSync(command, args, { cwd, stdio: ["ignore", "inherit", "inherit"] });
  if (status !== 0) throw new Error(`${command} ${args[0]} failed with status ${status}`, { cause: error });
}

/** Leaves in the folder what belongs into the zip, whoever zips it. Paths sorted by code unit. */
function pruneStage(): readonly string[] {
  const rules = ignore().add(readFileSync(join(ROOT, ".funcignore"), "utf8"));
  const kept: string[] = [];
  for (const entry of readdirSync(stage, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory()) continue;
    const path = relative(stage, join(entry.parentPath, entry.name)).split(sep).join("/");
    if (entry.isFile() && !rules.ignores(path)) kept.push(path);
    else rmSync(join(stage, path));
  }
  return kept.sort();
}

function zipFiles(paths: readonly string[]): Uint8Array {
  const entries: Zippable = {};
  for (const path of paths)
    entries[path] = [readFileSync(join(stage, path)), { level: 9, mtime: FILE_TIME, os: UNIX, attrs: READABLE_FILE }];
  return zipSync(entries);
}

function report(paths: readonly string[], zipBytes: number): void {
  const groups = Map.groupBy(paths, groupOf);
  for (const [group, members] of groups) process.stdout.write(`${String(members.length).padStart(6)} files  ${group}\n`);
  process.stdout.write(`${relative(process.cwd(), zipFile)}: ${paths.length} files, ${(zipBytes / 1e6).toFixed(1)} MB\n`);
}

/** The folder of a package, of a room, or the file itself. */
function groupOf(path: string): string {
  const [first, second, third] = path.split("/");
  if (second === undefined || first === "dist") return third === undefined || second === undefined ? path : `${first}/${second}/`;
  return second.startsWith("@") ? `${first}/${second}/${third}/` : `${first}/${second}/`;
}
