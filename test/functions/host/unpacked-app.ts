/** The app as it is deployed: packaged by the command, unpacked again in another place. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { unzipSync } from "fflate";

const PACKAGE = fileURLToPath(new URL("../../../src/local/package-app.ts", import.meta.url));

/** For hooks that start hosts, on a machine that is busy. */
export const SETUP_MS = 120_000;

export interface UnpackedApp extends Disposable {
  readonly folder: string;
  /** Beside the app, for logs. */
  readonly scratch: string;
  readonly files: readonly string[];
  readonly zip: Uint8Array;
  /** What the command printed. */
  readonly printed: string;
}

export function packageAndUnpack(): UnpackedApp {
  const root = mkdtempSync(join(tmpdir(), "ordered-outbox-app-"));
  const printed = execFileSync(process.execPath, [PACKAGE, join(root, "build")], { encoding: "utf8" });
  const zip = readFileSync(join(root, "build", "functions.zip"));
  // Nothing but the zip is left of it.
  rmSync(join(root, "build"), { recursive: true });
  const folder = join(root, "app");
  const entries = Object.entries(unzipSync(zip));
  for (const [path, bytes] of entries) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), bytes);
  }
  return {
    folder,
    scratch: root,
    files: entries.map(([path]) => path),
    zip,
    printed,
    [Symbol.dispose]: () => rmSync(root, { recursive: true, force: true }),
  };
}
