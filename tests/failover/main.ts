/**
 * `bun run drill restore`: a backup and its restore beside a chain that moved on. `bun run drill failover`: the service on a Patroni cluster of this machine, through five failovers; then once on an asynchronous one,
 * to show what that forgets. `bun run drill failover synchronous` or `asynchronous` runs one of them, and names behind it only these faults:
 * `bun run drill failover synchronous partition "disk full"`.
 */
import { runRestoreDrill } from "../backup/restore-drill.ts";
import { missingPackages } from "./cluster.ts";
import { runDrill } from "./drill.ts";

const [name, kind, ...only] = process.argv.slice(2);
if (name === "restore") {
  const report = await runRestoreDrill();
  console.log(report.output);
  console.log(JSON.stringify(report));
  console.log(
    `${report.links} links, ${report.transfers} transfers: ${report.differences.length} difference(s)`,
  );
  process.exit(report.differences.length === 0 && report.refusedOnRestored === 409 ? 0 : 1);
}
if (name !== "failover") {
  console.error("bun run drill restore | bun run drill failover [synchronous|asynchronous]");
  process.exit(64); // EX_USAGE of sysexits.h
}
const missing = missingPackages();
if (missing) {
  console.error(missing);
  process.exit(69); // EX_UNAVAILABLE of sysexits.h
}
let isSound = true;
for (const isSynchronous of [true, false]) {
  if (kind !== undefined && kind !== (isSynchronous ? "synchronous" : "asynchronous")) continue;
  const report = await runDrill({ isSynchronous, ...(only.length > 0 ? { only } : {}) });
  console.log(JSON.stringify(report));
  console.log(
    `${report.cluster}: lost ${report.lost}, double ${report.double}, forgotten ${report.forgotten} of ${report.payments} payments, missing marks ${report.missingMarks}; ` +
      `longest time without service ${Math.max(...report.faults.map(({ secondsWithout = 0 }) => secondsWithout))} s`,
  );
  const gone = report.lost + report.forgotten + report.missingMarks;
  const isClean = gone + report.double + report.unanswered === 0;
  if (isSynchronous && !(isClean && report.broken.length === 0 && report.wrong.length === 0)) isSound = false;
}
process.exit(isSound ? 0 : 1);
