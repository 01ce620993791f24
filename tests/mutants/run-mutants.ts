/** Runs each mutant's tests, nearest first, until one fails, none is left, or its time is over. */
import { applyMutant, type Mutant } from "./list-mutants.ts";
import type { ScratchCopy } from "./scratch-copy.ts";
import type { TestMap } from "./test-map.ts";

export type Verdict = {
  mutant: Mutant;
  /** Untested: no test that passes without the change is mapped to the file, or none fits the limit. */
  outcome: "killed" | "survived" | "untested";
  /** Those that ran; the last one noticed a killed mutant. */
  tests: string[];
  seconds: number;
};

/** A test that takes longer than on the unchanged sources by this factor has noticed: something waits in vain. */
const SLOWER_MAX = 4;
const SLOWER_SPARE_S = 15;
/** A test longer than this is not worth its time for each mutant. */
const TEST_MAX_S = 30;

export async function runMutants(
  mutants: readonly Mutant[],
  {
    copy,
    testMap,
    limitS,
    isStopped,
    onVerdict,
  }: {
    copy: ScratchCopy;
    testMap: TestMap;
    limitS: number;
    isStopped: () => boolean;
    onVerdict: (verdict: Verdict) => void;
  },
): Promise<Verdict[]> {
  const baselines = new Map<string, number | undefined>();
  const verdicts: Verdict[] = [];
  for (const mutant of mutants) {
    if (isStopped()) break;
    const tests = await chooseTests(testMap.testsOf(mutant.file), { copy, limitS, baselines });
    const verdict = await judge(mutant, tests, copy);
    verdicts.push(verdict);
    onVerdict(verdict);
  }
  return verdicts;
}

type TimedTest = { test: string; seconds: number };

/** Nearest first, as many as fit the limit by what they take on the unchanged sources. */
async function chooseTests(
  candidates: readonly string[],
  {
    copy,
    limitS,
    baselines,
  }: { copy: ScratchCopy; limitS: number; baselines: Map<string, number | undefined> },
): Promise<TimedTest[]> {
  const chosen: TimedTest[] = [];
  let total = 0;
  for (const test of candidates) {
    if (total >= limitS) break;
    if (!baselines.has(test)) baselines.set(test, await timeUnchanged(test, copy));
    const seconds = baselines.get(test);
    if (seconds === undefined) continue;
    chosen.push({ test, seconds });
    total += seconds;
  }
  // Quick ones first: most mutants are noticed by many tests.
  return chosen.sort((one, other) => one.seconds - other.seconds);
}

/** Undefined when it fails without any change, or takes too long. */
async function timeUnchanged(test: string, copy: ScratchCopy): Promise<number | undefined> {
  const { passed, timedOut, seconds } = await copy.runTest(test, TEST_MAX_S);
  if (!passed)
    console.log(`· left out: ${test} ${timedOut ? `takes more than ${TEST_MAX_S} s` : "fails unchanged"}`);
  return passed ? seconds : undefined;
}

async function judge(mutant: Mutant, tests: readonly TimedTest[], copy: ScratchCopy): Promise<Verdict> {
  const original = copy.read(mutant.file);
  const ran: string[] = [];
  let seconds = 0;
  copy.write(mutant.file, applyMutant(original, mutant));
  try {
    for (const { test, seconds: unchanged } of tests) {
      const run = await copy.runTest(test, unchanged * SLOWER_MAX + SLOWER_SPARE_S);
      ran.push(test);
      seconds += run.seconds;
      if (!run.passed) return { mutant, outcome: "killed", tests: ran, seconds };
    }
  } finally {
    copy.write(mutant.file, original);
  }
  return { mutant, outcome: ran.length === 0 ? "untested" : "survived", tests: ran, seconds };
}
