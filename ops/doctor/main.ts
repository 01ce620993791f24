/**
 * `npm run doctor`: every fault of every process's configuration at once, and whether what it names can be reached, with the fix. Exit 1
 * when there is a fault. `--offline` reads the configuration alone; `--json` prints one finding a line.
 */
import { readArgumentsOrExit } from "../../core/runtime/command-line.ts";
import { examine } from "./examine.ts";
import { presentFindings } from "./finding.ts";

const yes = { type: "boolean" } as const;
const usage = "bun run doctor [--offline] [--json]";
const { values } = readArgumentsOrExit(usage, { offline: yes, json: yes });
const findings = await examine(process.env, { isOffline: values.offline ?? false });
if (values.json) for (const finding of findings) console.log(JSON.stringify(finding));
else console.log(presentFindings(findings));
process.exit(findings.some(({ level }) => level === "fault") ? 1 : 0);
