/** The real Bicep compiler: from NuGet, where there is a .NET SDK to fetch it, else the one on PATH. */
import { execFile } from "node:child_process";
import { access, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Fixed, so that the types of resources, which judge the template, change by a commit only. */
const VERSION = "0.49.2";
const CACHE = fileURLToPath(new URL("../../node_modules/.cache/bicep", import.meta.url));
const FETCH_TIMEOUT_MS = 300_000;
const RUN_TIMEOUT_MS = 120_000;

export interface BicepCli {
  readonly path: string;
  /** Where it is from. */
  readonly source: string;
}

/** Resolves to the reason, as text, if there is none to be had. */
export async function findBicep(): Promise<BicepCli | string> {
  const reasons: string[] = [];
  try {
    return await fetchBicep();
  } catch (error) {
    reasons.push(`NuGet with dotnet: ${firstLine(error)}`);
  }
  try {
    const { stdout } = await run("bicep", ["--version"], { timeout: RUN_TIMEOUT_MS });
    return { path: "bicep", source: `PATH, ${stdout.trim()}` };
  } catch (error) {
    reasons.push(`bicep on PATH: ${firstLine(error)}`);
  }
  return `no Bicep CLI (${reasons.join("; ")})`;
}

/** What a run printed, standard error included: diagnostics are there. Does not throw for diagnostics. */
export async function runBicep(cli: BicepCli, args: readonly string[]): Promise<{ readonly stdout: string; readonly stderr: string }> {
  try {
    return await run(cli.path, args, { timeout: RUN_TIMEOUT_MS, maxBuffer: 64 * 1024 * 1024, env: { ...process.env, NO_COLOR: "1" } });
  } catch (error) {
    // It ran, and found errors. Without a code it did not run, or not to its end.
    if (error instanceof Error && "stderr" in error && "code" in error && typeof error.code === "number") {
      return error as unknown as { readonly stdout: string; readonly stderr: string };
    }
    throw error;
  }
}

async function fetchBicep(): Promise<BicepCli> {
  const platform = `${{ darwin: "osx", win32: "win" }[process.platform as string] ?? process.platform}-${process.arch}`;
  const name = `Azure.Bicep.CommandLine.${platform}`;
  const folder = join(CACHE, name.toLowerCase(), VERSION);
  const cli = {
    path: join(folder, "tools", process.platform === "win32" ? "bicep.exe" : "bicep"),
    source: `NuGet, ${name} ${VERSION}`,
  };
  // NuGet writes this file last.
  const isComplete = (): Promise<boolean> =>
    access(join(folder, ".nupkg.metadata")).then(
      () => true,
      () => false,
    );
  if (await isComplete()) return cli;
  const project = await mkdtemp(join(tmpdir(), "bicep-cli-"));
  try {
    await writeFile(
      join(project, "bicep.csproj"),
      `<Project Sdk="Microsoft.NET.Sdk">
        <PropertyGroup>
          <TargetFramework>net8.0</TargetFramework>
          <DisableImplicitFrameworkReferences>true</DisableImplicitFrameworkReferences>
        </PropertyGroup>
        <ItemGroup><PackageDownload Include="${name}" Version="[${VERSION}]" /></ItemGroup>
      </Project>`,
    );
    await run("dotnet", ["restore", join(project, "bicep.csproj"), "--packages", CACHE], {
      timeout: FETCH_TIMEOUT_MS,
      env: { ...process.env, DOTNET_CLI_TELEMETRY_OPTOUT: "1", DOTNET_NOLOGO: "1", DOTNET_CLI_UI_LANGUAGE: "en" },
    });
  } finally {
    await rm(project, { recursive: true, force: true });
  }
  if (!(await isComplete())) throw new Error(`restored, but there is no ${name} ${VERSION}`);
  return cli;
}

function firstLine(error: unknown): string {
  const { message, stdout } = error as { readonly message?: string; readonly stdout?: string };
  const reported = stdout?.split("\n").find((line) => line.includes("error"));
  return (reported ?? message ?? String(error)).split("\n")[0]!.trim();
}
