/**
 * `bun run mutants`: changes one condition of the money rules at a time, in TypeScript or in SQL, and prints the changes that no test
 * noticed.
 *
 *   --count 40     how many, drawn over all kinds of changes; 0 takes every one
 *   --seed 7       which; printed when left out
 *   --file queue   only sources whose path contains this
 *   --rule drop    only changes whose rule contains this
 *   --limit 60     seconds of tests a change may take before it counts as survived
 *   --processes    also tests of the same subject that start the service's processes
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { prepareTemplate } from "../support/postgres.ts";
import { startTestServer } from "../support/postgres-server.ts";
import { listMutants, type Mutant } from "./list-mutants.ts";
import { runMutants, type Verdict } from "./run-mutants.ts";
import { makeScratchCopy, type ScratchCopy } from "./scratch-copy.ts";
import { readTestMap } from "./test-map.ts";

const SOURCES = ["core/domain", "db/payments", "db/ledger", "db/wallet-ops", "indexer"];

const { values } = parseArgs({
  options: {
    count: { type: "string", default: "40" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
    file: { type: "string", default: "" },
    rule: { type: "string", default: "" },
    limit: { type: "string", default: "60" },
    processes: { type: "boolean", default: false },
  },
});
const server = await startTestServer();
const copy = makeScratchCopy(join(import.meta.dir, "../.."), server.adminUrl);
let isStopped = false;
process.on("SIGINT", () => {
  isStopped = true;
});
try {
  await prepareTemplate(server.adminUrl);
  const all = listAll(copy);
  const chosen = choose(all, Number(values.count), Number(values.seed));
  console.log(`· ${chosen.length} of ${all.length} mutants, --seed ${values.seed}`);
  const testMap = readTestMap(copy.root, { withProcesses: values.processes });
  const verdicts = await runMutants(chosen, {
    ...{ copy, testMap, limitS: Number(values.limit), isStopped: () => isStopped },
    onVerdict: report,
  });
  printTable(verdicts);
  process.exitCode = verdicts.some(({ outcome }) => outcome === "survived") ? 1 : 0;
} finally {
  copy.remove();
  await server.stop();
}

function listAll({ root, read }: ScratchCopy): Mutant[] {
  return SOURCES.flatMap((folder) => [...new Bun.Glob(`${folder}/**/*.ts`).scanSync(root)].sort())
    .filter((file) => file.includes(values.file))
    .flatMap((file) => listMutants(file, read(file)))
    .filter(({ rule }) => rule.includes(values.rule));
}

/** In turn from every rule, so that rare ones are tried as well. */
function choose(all: readonly Mutant[], count: number, seed: number): Mutant[] {
  const order = (mutant: Mutant) => Bun.hash(`${seed}:${mutant.file}:${mutant.start}:${mutant.rule}`);
  const byRule = Object.values(Object.groupBy(all, ({ rule }) => rule)).map((mutants = []) =>
    mutants.toSorted((one, other) => (order(one) < order(other) ? -1 : 1)),
  );
  const chosen: Mutant[] = [];
  for (let round = 0; chosen.length < (count || all.length) && round < all.length; round++) {
    chosen.push(...byRule.flatMap((mutants) => mutants.slice(round, round + 1)));
  }
  return count === 0 ? chosen : chosen.slice(0, count);
}

function report({ mutant, outcome, tests, seconds }: Verdict): void {
  const { file, line, rule } = mutant;
  if (outcome === "survived") {
    const text = copy.read(file);
    const changed = text.slice(mutant.start, mutant.end).trim();
    console.log(JSON.stringify({ outcome, file, line, rule, changed, to: mutant.replacement, tests }));
    return;
  }
  console.log(`· ${outcome} ${file}:${line} ${rule} (${seconds.toFixed(1)} s, ${tests.at(-1) ?? "no test"})`);
}

function printTable(verdicts: readonly Verdict[]): void {
  const rows = Object.entries(Object.groupBy(verdicts, ({ mutant }) => mutant.file)).map(
    ([file, found = []]) => {
      const count = (outcome: Verdict["outcome"]) => found.filter((one) => one.outcome === outcome).length;
      return {
        file,
        mutants: found.length,
        killed: count("killed"),
        survived: count("survived"),
        untested: count("untested"),
      };
    },
  );
  console.table(rows);
}
