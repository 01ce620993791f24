/** A copy of the project in which sources are changed and tests run, so that neither the work tree nor an editor ever sees a mutant. */
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnBound } from "../../local/processes/bound-process.ts";
import { SERVER_URL_VARIABLE } from "../support/postgres.ts";

const FOLDERS = [
  ...[
    "api",
    "bench",
    "cli",
    "core",
    "db",
    "deploy",
    "docs",
    "indexer",
    "local",
    "mcp",
    "ops",
    "patches",
    "sdk",
  ],
  ...["tests", "web", "worker"],
];
/** The lock file is part of the stamp of the built pages: without it no process starts. */
const FILES = ["package.json", "bun.lock", "tsconfig.json", "bunfig.toml"];

export type TestRun = {
  passed: boolean;
  timedOut: boolean;
  seconds: number;
  /** An lcov report; empty unless measured. */
  coverage: string;
};

export type ScratchCopy = {
  root: string;
  read: (file: string) => string;
  write: (file: string, text: string) => void;
  /** One test file in a process of its own, up to its first failure. */
  runTest: (test: string, timeoutS: number, options?: { isMeasured: boolean }) => Promise<TestRun>;
  remove: () => void;
};

export function makeScratchCopy(root: string, serverUrl: string): ScratchCopy {
  const folder = mkdtempSync(join(tmpdir(), "mutants-"));
  for (const name of [...FOLDERS, ...FILES])
    cpSync(join(root, name), join(folder, name), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  return {
    root: folder,
    read: (file) => readFileSync(join(folder, file), "utf8"),
    write: (file, text) => writeFileSync(join(folder, file), text),
    runTest: (test, timeoutS, options) => runTest(test, { cwd: folder, serverUrl, timeoutS, ...options }),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function runTest(
  test: string,
  {
    cwd,
    serverUrl,
    timeoutS,
    isMeasured = false,
  }: { cwd: string; serverUrl: string; timeoutS: number; isMeasured?: boolean },
): Promise<TestRun> {
  const startedAt = performance.now();
  let timedOut = false;
  const report = join(cwd, "coverage/lcov.info");
  rmSync(report, { force: true });
  const measuring = ["--coverage", "--coverage-reporter=lcov", `--coverage-dir=${join(cwd, "coverage")}`];
  const runner = await spawnBound({
    command: process.execPath,
    args: ["--no-env-file", "test", "--bail", "--timeout=60000", ...(isMeasured ? measuring : []), test],
    cwd,
    env: { ...process.env, [SERVER_URL_VARIABLE]: serverUrl },
    stopSignal: "SIGTERM",
    orphanSignal: "SIGKILL",
    onOutput: () => {},
  });
  const timer = setTimeout(() => {
    timedOut = true;
    runner.kill("SIGKILL");
  }, timeoutS * 1000);
  const code = await runner.exited;
  clearTimeout(timer);
  return {
    passed: code === 0,
    timedOut,
    seconds: (performance.now() - startedAt) / 1000,
    coverage: existsSync(report) ? readFileSync(report, "utf8") : "",
  };
}
