/** Which test files may notice a change of a source file: nearest first, by imports; tests that start processes, by subject. */
import { readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

const IMPORT =
  /(?:^|[\s;])(?:import|export)\s(?:[^"';]*?\sfrom\s)?["'](\.[^"']+)["']|\bimport\(\s*["'](\.[^"']+)["']\s*\)/g;
/** They start the service as processes of their own, which imports do not show. */
const STARTS_PROCESSES = ["tests/support/world.ts", "tests/support/api-world.ts"];
/** What a process reads is as far from its tests as this, when they have no subject in common. */
const PROCESS_DISTANCE = 8;

/** Subjects of tests that, beside the folder's own name, are about a folder's rules. */
const SUBJECTS: Record<string, readonly string[]> = {
  "core/domain": ["chain", "settle", "links", "ledger"],
  "db/payments": ["payments", "settle", "ledger", "facilitator", "links"],
  "db/ledger": ["ledger", "settle", "audit", "follow", "leadership", "source"],
  "indexer/settle": ["settle", "ledger", "payments"],
  "indexer/audit": ["audit"],
  "indexer/follow": ["follow"],
  "indexer/source": ["source", "follow"],
  indexer: ["leadership", "follow", "health"],
};

export type TestMap = {
  /** Nearest first; never empty of those that import the file. */
  testsOf: (source: string) => string[];
};

/** `withProcesses`: also tests that start the service, which take ten times as long. */
export function readTestMap(root: string, { withProcesses }: { withProcesses: boolean }): TestMap {
  const files = [...new Bun.Glob("{core,db,api,worker,indexer,local,bench,tests}/**/*.ts").scanSync(root)];
  const imports = new Map(
    files.map((file) => [file, readImports(file, readFileSync(join(root, file), "utf8"))]),
  );
  const tests = files.filter((file) => file.endsWith(".test.ts") && !file.startsWith("tests/mutants/"));
  const distances = new Map(tests.map((test) => [test, distancesFrom(test, imports)]));
  const testsOf = (source: string) =>
    tests
      .map((test) => ({ test, distance: rank(source, test, distances.get(test) ?? new Map()) }))
      .filter(({ distance }) => distance < (withProcesses ? Number.POSITIVE_INFINITY : PROCESS_DISTANCE))
      .sort((one, other) => one.distance - other.distance || one.test.localeCompare(other.test))
      .map(({ test }) => test);
  return { testsOf };
}

function rank(source: string, test: string, distances: ReadonlyMap<string, number>): number {
  const imported = distances.get(source);
  const startsProcesses = STARTS_PROCESSES.some((file) => distances.has(file));
  const place = subjectsOf(source).indexOf(test.split("/")[1] ?? "");
  // Of equally near ones first those of the folder's own subject.
  if (imported !== undefined && !startsProcesses) return imported - (place < 0 ? 0 : 0.5 / (place + 1));
  return startsProcesses && place >= 0 ? PROCESS_DISTANCE : Number.POSITIVE_INFINITY;
}

function subjectsOf(source: string): string[] {
  const folder = dirname(source);
  return [folder.split("/").at(-1) ?? "", ...(SUBJECTS[folder] ?? [])];
}

function distancesFrom(
  start: string,
  imports: ReadonlyMap<string, readonly string[]>,
): ReadonlyMap<string, number> {
  const distances = new Map([[start, 0]]);
  for (const [file, distance] of distances) {
    for (const target of imports.get(file) ?? [])
      if (!distances.has(target)) distances.set(target, distance + 1);
  }
  return distances;
}

function readImports(file: string, text: string): string[] {
  return (
    [...text.matchAll(IMPORT)]
      // A type is no code: it can't carry a change into a test.
      .filter(([statement]) => !/^\s*import type\s/.test(statement))
      .map((match) => normalize(join(dirname(file), match[1] ?? match[2] ?? "")))
  );
}
