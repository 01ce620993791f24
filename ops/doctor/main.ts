/**
 * `npm run doctor`: every fault of every process's configuration at once, and whether what it names can be reached, with the fix. Exit 1
 * when there is a fault. `--offline` reads the configuration alone; `--json` prints one finding a line.
 */
import { examine } from "./examine.ts";
import { presentFindings } from "./finding.ts";

const findings = await examine(process.env, { isOffline: process.argv.includes("--offline") });
if (process.argv.includes("--json")) for (const finding of findings) console.log(JSON.stringify(finding));
else console.log(presentFindings(findings));
process.exit(findings.some(({ level }) => level === "fault") ? 1 : 0);
