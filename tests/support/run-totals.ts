/** Counts of a run, from the runner's report (JUnit XML) and, for files that the report lacks, from what it printed. */
import type { FileReport } from "./run-output.ts";

export type Totals = { passed: number; failed: number; skipped: number };
export type RunTotals = Totals & { flaky: number };

type CountedRun = { totals: ReadonlyMap<string, Totals>; isGood: boolean; isWhole: boolean };

/** A file's own suite; suites within a file carry a line. */
const FILE_SUITE = /<testsuite name="[^"]*" file="([^"]+)" (?!line=)[^>]*>/g;

/** By file. One that did not load is missing in the report, and counts as one failure. */
export function readTotals(xml: string, files: ReadonlyMap<string, FileReport>): ReadonlyMap<string, Totals> {
  const suites = [...xml.matchAll(FILE_SUITE)].map(([tag, file = ""]): [string, Totals] => {
    const count = (name: string) => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(tag)?.[1] ?? 0);
    const [failed, skipped] = [count("failures"), count("skipped")];
    return [file, { passed: count("tests") - failed - skipped, failed, skipped }];
  });
  const totals = new Map(suites);
  for (const [file, report] of files)
    if (report.failed.length > 0 && !totals.get(file)?.failed)
      totals.set(file, { passed: 0, skipped: 0, ...totals.get(file), failed: report.failed.length });
  return totals;
}

/**
 * A file that was run again counts as it ended then; `flaky` are the files that passed only then. A run that crashed, or ended badly
 * without a failed test, counts as one failure more, and so does each file that was `expected` and is not in the report.
 */
export function sumTotals(
  first: CountedRun,
  again: ReadonlyMap<string, CountedRun>,
  expected: readonly string[] = [],
): RunTotals {
  const runs = [...again].flatMap(([file, run]) => {
    const totals = run.totals.get(file);
    return totals === undefined ? [] : [{ file, totals, run }];
  });
  const last = new Map(first.totals);
  for (const { file, totals, run } of runs) if (run.isGood || totals.failed > 0) last.set(file, totals);
  const sum = { passed: 0, failed: 0, skipped: 0 };
  for (const { passed, failed, skipped } of last.values()) {
    sum.passed += passed;
    sum.failed += failed;
    sum.skipped += skipped;
  }
  sum.failed += expected.filter((file) => !last.has(file)).length;
  const hasFailedFile = [...first.totals.values()].some(({ failed }) => failed > 0);
  if (!first.isWhole || (!first.isGood && !hasFailedFile)) sum.failed += 1;
  return { ...sum, flaky: runs.filter(({ run }) => run.isGood).length };
}
