/** What the Bicep CLI has to say against the files of a folder. */
import { cp, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runBicep, type BicepCli } from "./bicep-cli.ts";

const PATTERNS = ["**/*.bicep", "**/*.bicepparam"];

/** What {@link lint} finds, and the files that are not formatted. Empty if all is well. */
export async function diagnose(cli: BicepCli, folder: string): Promise<readonly string[]> {
  const badly = await unformatted(cli, folder);
  return [...(await lint(cli, folder)), ...badly.map((file) => `${file}: not formatted, run bicep format`)];
}

/** Errors, warnings and hints of every Bicep file below `folder`. */
export async function lint(cli: BicepCli, folder: string): Promise<readonly string[]> {
  const findings = new Set<string>();
  for (const pattern of PATTERNS) {
    const { stdout, stderr } = await runBicep(cli, ["lint", "--no-restore", "--pattern", join(folder, pattern)]);
    // Whatever it says is a finding: it says nothing about files that are as they should be.
    for (const line of `${stdout}\n${stderr}`.split("\n")) if (line.trim() !== "") findings.add(line.trim());
  }
  return [...findings];
}

/** Formats a copy: the CLI has no mode that only looks. */
async function unformatted(cli: BicepCli, folder: string): Promise<readonly string[]> {
  const copy = await mkdtemp(join(tmpdir(), "bicep-format-"));
  try {
    await cp(folder, copy, { recursive: true });
    for (const pattern of PATTERNS) await runBicep(cli, ["format", "--pattern", join(copy, pattern)]);
    const [files, formatted] = [await bicepFiles(folder), await bicepFiles(copy)];
    const texts = (paths: readonly string[]): Promise<readonly string[]> => Promise.all(paths.map((path) => readFile(path, "utf8")));
    const [before, after] = [await texts(files), await texts(formatted)];
    return files.filter((_file, index) => before[index] !== after[index]);
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

/** Paths of all Bicep and parameter files below `folder`. */
export async function bicepFiles(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder, { recursive: true });
  return names
    .filter((name) => /\.bicep(?:param)?$/.test(name))
    .sort()
    .map((name) => join(folder, name));
}
