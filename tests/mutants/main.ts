/**
 * `bun run mutants`: changes one condition of the rules of money and access at a time, in TypeScript or in SQL, and prints the changes
 * that no test detected. Interrupted, it continues where it stopped: verdicts and what each test executes are kept in `.data/mutants`.
 *
 *   --count 40     how many, drawn over all kinds of changes; 0 takes every one
 *   --seed 7       which; printed when left out
 *   --file a,b     only sources whose path contains one of these
 *   --rule a,b     only changes whose rule contains one of these
 *   --limit 60     seconds of tests a change may take before it counts as survived
 *   --minutes 10   no further change is started after this; 0: no limit
 *   --again        tries once more what survived earlier
 *   --processes    also tests of the same subject that start the service's processes
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startTestServer } from "../support/postgres-server.ts";
import { prepareTemplate } from "../support/template-database.ts";
import { openCoverageMap } from "./coverage-map.ts";
import { openJournal } from "./journal.ts";
import { listMutants, type Mutant } from "./list-mutants.ts";
import { runMutant, type Verdict } from "./run-mutants.ts";
import { makeScratchCopy, type ScratchCopy } from "./scratch-copy.ts";
import { readTestMap } from "./test-map.ts";

const ROOT = join(import.meta.dir, "../..");
const KEPT = join(ROOT, ".data/mutants");
const SOURCES = [
  "core/domain",
  "db/payments",
  "db/links",
  "db/relays",
  "db/ledger",
  "db/transactions",
  "db/wallet-ops",
  "db/auth",
  "db/sessions",
  "db/api-keys",
  "db/members",
  "db/jobs",
  "db/documents",
  "db/exports",
  "db/events",
  "db/webhooks",
  "indexer",
  "worker/payments",
  "worker/sender",
  "worker/wallet-ops",
  "worker/webhooks",
  "worker/jobs",
  "worker/mail",
  "worker/links",
  "worker/exports",
  "core/runtime",
];

const { values } = parseArgs({
  options: {
    count: { type: "string", default: "40" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
    file: { type: "string", default: "" },
    rule: { type: "string", default: "" },
    limit: { type: "string", default: "60" },
    minutes: { type: "string", default: "0" },
    again: { type: "boolean", default: false },
    processes: { type: "boolean", default: false },
  },
});
const endsAt = Number(values.minutes)
  ? performance.now() + Number(values.minutes) * 60_000
  : Number.POSITIVE_INFINITY;
const server = await startTestServer();
const copy = makeScratchCopy(ROOT, server.adminUrl);
let isStopped = false;
process.on("SIGINT", () => {
  isStopped = true;
});
try {
  await prepareTemplate(server.adminUrl);
  const verdicts = await judgeAll();
  printTable(verdicts);
  process.exitCode = verdicts.some(({ outcome }) => outcome === "survived") ? 1 : 0;
} finally {
  copy.remove();
  await server.stop();
}

async function judgeAll(): Promise<Verdict[]> {
  const all = listAll(copy);
  const chosen = choose(all, Number(values.count), Number(values.seed));
  console.log(`· ${chosen.length} of ${all.length} mutants, --seed ${values.seed}`);
  const journal = openJournal(join(KEPT, "verdicts.jsonl"));
  const runner = {
    copy,
    testMap: readTestMap(copy.root, { withProcesses: values.processes }),
    coverage: openCoverageMap(copy, join(KEPT, "coverage.json")),
    limitS: Number(values.limit),
  };
  const verdicts: Verdict[] = [];
  for (const mutant of chosen) {
    const text = copy.read(mutant.file);
    const known = journal.find(mutant, text);
    if (known && (known.outcome === "killed" || !values.again)) {
      verdicts.push(known);
      continue;
    }
    if (isStopped || performance.now() > endsAt) break;
    const verdict = await runMutant(mutant, runner);
    // A signal to the whole group ends the test as well, which says nothing about the change.
    if (isStopped) break;
    journal.add(verdict, text);
    verdicts.push(verdict);
    report(verdict);
  }
  if (verdicts.length < chosen.length) console.log(`· stopped: ${chosen.length - verdicts.length} are left`);
  return verdicts;
}

function listAll({ root, read }: ScratchCopy): Mutant[] {
  return SOURCES.flatMap((folder) => [...new Bun.Glob(`${folder}/**/*.ts`).scanSync(root)].sort())
    .filter((file) => values.file.split(",").some((part) => file.includes(part)))
    .flatMap((file) => listMutants(file, read(file)))
    .filter(({ rule }) => values.rule.split(",").some((part) => rule.includes(part)));
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
  if (outcome !== "killed") {
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
