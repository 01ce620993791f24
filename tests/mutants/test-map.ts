/** Which test files may detect a change of a source file: by imports; tests that start processes, by subject. */
import { readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

const IMPORT =
  /(?:^|[\s;])(?:import|export)\s(?:[^"';]*?\sfrom\s)?["'](\.[^"']+)["']|\bimport\(\s*["'](\.[^"']+)["']\s*\)/g;
/** They start the service as processes of their own, which imports do not show. */
const STARTS_PROCESSES = ["tests/support/world.ts", "tests/support/api-world.ts"];

/** Subjects of tests that, beside the folder's own name, are about a folder's rules. */
const SUBJECTS: Record<string, readonly string[]> = {
  "core/domain": ["chain", "settle", "links", "ledger", "x402", "exports", "documents", "relays", "config"],
  "db/links": ["links", "settle", "payments"],
  "db/relays": ["relays", "sender", "payments"],
  "db/wallet-ops": ["wallet-ops"],
  "db/payments": ["payments", "settle", "ledger", "facilitator", "links"],
  "db/transactions": ["transactions"],
  "db/ledger": ["ledger", "settle", "audit", "follow", "leadership", "source"],
  "worker/sender": ["sender", "relays"],
  "worker/payments": ["payments", "relays"],
  "indexer/settle": ["settle", "ledger", "payments"],
  "indexer/audit": ["audit"],
  "indexer/follow": ["follow"],
  "indexer/source": ["source", "follow"],
  indexer: ["leadership", "follow", "health"],
};

export type MappedTest = {
  test: string;
  /** Of the source's own subject, or one beside it. */
  isOwn: boolean;
  startsProcesses: boolean;
};

export type TestMap = {
  testsOf: (source: string) => MappedTest[];
};

/** `withProcesses`: also tests that start the service, which take ten times as long. */
export function readTestMap(root: string, { withProcesses }: { withProcesses: boolean }): TestMap {
  const files = [
    ...new Bun.Glob("{core,db,api,worker,indexer,local,bench,tests,mcp,sdk,ops,web}/**/*.ts").scanSync(root),
  ];
  const imports = new Map(
    files.map((file) => [file, readImports(file, readFileSync(join(root, file), "utf8"))]),
  );
  const tests = files
    .filter((file) => file.endsWith(".test.ts") && !file.startsWith("tests/mutants/"))
    .map((test) => {
      const reached = reachedFrom(test, imports);
      return { test, reached, startsProcesses: STARTS_PROCESSES.some((file) => reached.has(file)) };
    });
  const testsOf = (source: string) =>
    tests.flatMap(({ test, reached, startsProcesses }) => {
      const isOwn = subjectsOf(source).includes(test.split("/")[1] ?? "");
      const isMapped = startsProcesses ? withProcesses && isOwn : reached.has(source);
      return isMapped ? [{ test, isOwn, startsProcesses }] : [];
    });
  return { testsOf };
}

function subjectsOf(source: string): string[] {
  const folder = dirname(source);
  return [folder.split("/").at(-1) ?? "", ...(SUBJECTS[folder] ?? [])];
}

function reachedFrom(start: string, imports: ReadonlyMap<string, readonly string[]>): ReadonlySet<string> {
  const reached = new Set([start]);
  for (const file of reached) for (const target of imports.get(file) ?? []) reached.add(target);
  return reached;
}

function readImports(file: string, text: string): string[] {
  return (
    [...text.matchAll(IMPORT)]
      // A type is no code: it can't carry a change into a test.
      .filter(([statement]) => !/^\s*import type\s/.test(statement))
      .map((match) => normalize(join(dirname(file), match[1] ?? match[2] ?? "")))
  );
}
