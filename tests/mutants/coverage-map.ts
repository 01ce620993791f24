/** Which lines of the sources each test executes, and how long it takes: measured once, and kept until the test or a source changes. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Mutant } from "./list-mutants.ts";
import type { ScratchCopy } from "./scratch-copy.ts";

/** A test longer than this is not worth its time for each mutant. */
const TEST_MAX_S = 40;
/** What a change of anything here may do to a test is not known without measuring again. */
const READ_BY_TESTS = "{core,db,api,worker,indexer,local,tests/support}/**/*.ts";

type Lines = { executed: number[]; known: number[] };
type Measurement = { key: string; seconds: number; passed: boolean; lines: Record<string, Lines> };

export type CoverageMap = {
  /** Measures what is not known yet. Undefined when it fails unchanged, or takes too long. */
  measure: (test: string) => Promise<Measurement | undefined>;
  /** As measured, or in an earlier run of the whole suite; 0 for a new test, which is measured first. */
  estimateS: (test: string) => number;
};

export function openCoverageMap(copy: ScratchCopy, path: string): CoverageMap {
  const kept: Record<string, Measurement> = existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : {};
  const sources = hashSources(copy);
  const measure = async (test: string) => {
    const key = `${sources}:${Bun.hash(copy.read(test))}`;
    let measurement = kept[test];
    if (measurement?.key !== key) {
      measurement = { key, ...(await measureTest(test, copy)) };
      kept[test] = measurement;
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, JSON.stringify(kept));
    }
    return measurement.passed ? measurement : undefined;
  };
  const suite: { files: Record<string, number> } = JSON.parse(copy.read("tests/timings.json"));
  const estimateS = (test: string) => kept[test]?.seconds ?? (suite.files[test] ?? 0) / 1000;
  return { measure, estimateS };
}

/** A statement of several lines is known by its first. */
export function executes({ lines }: Pick<Measurement, "lines">, { file, line }: Mutant): boolean {
  const found = lines[file];
  if (!found) return false;
  const statement = found.known.findLast((known) => known <= line);
  return statement !== undefined && found.executed.includes(statement);
}

async function measureTest(test: string, copy: ScratchCopy): Promise<Omit<Measurement, "key">> {
  const { passed, timedOut, seconds, coverage } = await copy.runTest(test, TEST_MAX_S, { isMeasured: true });
  if (!passed)
    console.log(`· left out: ${test} ${timedOut ? `takes more than ${TEST_MAX_S} s` : "fails unchanged"}`);
  return { seconds, passed, lines: passed ? readCoverage(coverage) : {} };
}

/** The records of an lcov report: `SF:` names a file, `DA:line,count` a line, `end_of_record` ends a file. */
export function readCoverage(report: string): Record<string, Lines> {
  const lines: Record<string, Lines> = {};
  for (const record of report.split("end_of_record")) {
    const file = /^SF:(.+)$/m.exec(record)?.[1];
    if (!file || !/^(core|db|indexer|worker|api)\//.test(file)) continue;
    const entries = [...record.matchAll(/^DA:(\d+),(\d+)$/gm)].map(([, line, count]) => ({
      line: Number(line),
      count: Number(count),
    }));
    lines[file] = {
      executed: entries.filter(({ count }) => count > 0).map(({ line }) => line),
      known: entries.map(({ line }) => line),
    };
  }
  return lines;
}

function hashSources({ root, read }: ScratchCopy): string {
  const files = [...new Bun.Glob(READ_BY_TESTS).scanSync(root)].sort();
  const schema = readdirSync(join(root, "db/schema")).map((name) => `db/schema/${name}`);
  return String(Bun.hash([...files, ...schema.sort()].map((file) => `${file}\n${read(file)}`).join("\n")));
}
