/** What the sources use came with this version of Node.js; an older one would fail somewhere in the middle. */
const MIN_MAJOR = 22;
const MIN_MINOR = 18;
export const MIN_NODE: string = `${MIN_MAJOR}.${MIN_MINOR}`;

/** @param version as `process.versions.node` has it */
export function isNodeSupported(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > MIN_MAJOR || (major === MIN_MAJOR && minor >= MIN_MINOR);
}
