/** Runs the tests that execute a mutant's line, quick ones first, until one fails, none is left, or their time is over. */
import { type CoverageMap, executes } from "./coverage-map.ts";
import { applyMutant, type Mutant } from "./list-mutants.ts";
import type { ScratchCopy, TestRun } from "./scratch-copy.ts";
import type { MappedTest, TestMap } from "./test-map.ts";

export type Verdict = {
  mutant: Mutant;
  /** Untested: no test that passes without the change executes the line. */
  outcome: "killed" | "survived" | "untested";
  /** Those that ran; the last one detected a killed mutant. */
  tests: string[];
  seconds: number;
};

/** A test that takes longer than on the unchanged sources by this factor has detected the change: something waits in vain. */
const SLOWER_MAX = 4;
const SLOWER_SPARE_S = 15;
/** A test of the folder's own subject is worth this many times the seconds of another. */
const OWN_SUBJECT_WORTH = 4;

type Runner = {
  copy: ScratchCopy;
  testMap: TestMap;
  coverage: CoverageMap;
  limitS: number;
};

/** Measures a test only when its turn comes: most mutants are detected by the first. */
export async function runMutant(mutant: Mutant, runner: Runner): Promise<Verdict> {
  const { copy, testMap, coverage, limitS } = runner;
  const ran: string[] = [];
  let seconds = 0;
  let expectedS = 0;
  for (const { test, startsProcesses } of quickFirst(testMap.testsOf(mutant.file), coverage)) {
    const measured = await coverage.measure(test);
    // What a process of the service executes is not measured.
    if (!measured || (!startsProcesses && !executes(measured, mutant))) continue;
    expectedS += measured.seconds;
    if (ran.length > 0 && expectedS > limitS) break;
    const run = await runChanged(mutant, {
      copy,
      test,
      timeoutS: measured.seconds * SLOWER_MAX + SLOWER_SPARE_S,
    });
    ran.push(test);
    seconds += run.seconds;
    if (!run.passed) return { mutant, outcome: "killed", tests: ran, seconds };
  }
  return { mutant, outcome: ran.length === 0 ? "untested" : "survived", tests: ran, seconds };
}

function quickFirst(tests: readonly MappedTest[], coverage: CoverageMap): MappedTest[] {
  const cost = ({ test, isOwn }: MappedTest) => coverage.estimateS(test) / (isOwn ? OWN_SUBJECT_WORTH : 1);
  return tests.toSorted((one, other) => cost(one) - cost(other));
}

async function runChanged(
  mutant: Mutant,
  { copy, test, timeoutS }: { copy: ScratchCopy; test: string; timeoutS: number },
): Promise<TestRun> {
  const original = copy.read(mutant.file);
  copy.write(mutant.file, applyMutant(original, mutant));
  try {
    return await copy.runTest(test, timeoutS);
  } finally {
    copy.write(mutant.file, original);
  }
}
