/** `npm run bicep`: compiles and lints every Bicep file. Exit status 1 for any error, warning or hint. */
import { findBicep } from "./bicep-cli.ts";
import { bicepFiles, diagnose } from "./diagnose.ts";

const FOLDER = "bicep";

const cli = await findBicep();
if (typeof cli === "string") {
  process.stdout.write(`SKIPPED: the Bicep files were not compiled, ${cli}\n`);
} else {
  const findings = await diagnose(cli, FOLDER);
  for (const finding of findings) process.stderr.write(`${finding}\n`);
  process.stdout.write(`${(await bicepFiles(FOLDER)).length} Bicep files (${cli.source}), ${findings.length} findings\n`);
  if (findings.length > 0) process.exitCode = 1;
}
