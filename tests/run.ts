/**
 * `npm test`: one Postgres and one build of the processes for the whole run, the slowest files, what failed and why, one plain line at the end. Files start
 * in the order of tests/timings.json, the slowest first; `npm test -- --update-timings` measures them again.
 *
 * A file that fails is run once more when the others have ended, so that one race in thousands of tests does not stop a delivery: by itself, in a new
 * process with a new world, since a second attempt in the old world would meet what the first has left. The totals name it.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnBound } from "../local/processes/bound-process.ts";
import { compileServices, SERVICES_VARIABLE } from "./support/compiled-services.ts";
import { SERVER_URL_VARIABLE } from "./support/postgres.ts";
import { startTestServer } from "./support/postgres-server.ts";
import { describeFailures, type FileReport, readRunOutput, UNKNOWN_FILE } from "./support/run-output.ts";
import { type RunTotals, readTotals, sumTotals, type Totals } from "./support/run-totals.ts";
import { prepareTemplate } from "./support/template-database.ts";

/** On two cores: more files at a time end little sooner, and starve those that wait for a block or a lease. */
const PARALLEL_FILES = 6;
const ROOT = join(import.meta.dir, "..");
const TIMINGS = "tests/timings.json";
const TEST_TIMEOUT_MS = 120_000;
/** For processes that run hundreds of short files: the last optimising compiler never pays, and memory given back is soon asked for again. */
const RUNNERS = { BUN_JSC_useFTLJIT: "0", MIMALLOC_PURGE_DELAY: "-1" };
/** More failed files than this are not a race: none is run again. */
const MAX_FLAKY_FILES = 3;
const SLOWEST_SHOWN = 12;

let stopRunner: ((signal: "SIGINT" | "SIGTERM") => void) | undefined;

process.exitCode = await run(process.argv.slice(2));

/** `filters` are passed on to the runner: parts of file names, or its flags. Returns the exit code. */
async function run(filters: readonly string[]): Promise<number> {
  const startedAt = performance.now();
  const scratch = mkdtempSync(join(tmpdir(), "test-run-"));
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.on(signal, () => (stopRunner ? stopRunner(signal) : process.exit(1)));
  // each waits for one core most of the time
  const compiling = compileServices(scratch);
  compiling.catch(() => {});
  const server = await startTestServer();
  try {
    await prepareTemplate(server.adminUrl);
    await compiling;
    console.log(`· ${server.description} and the compiled services are ready (${seconds(startedAt)})`);
    const shared = { [SERVER_URL_VARIABLE]: server.adminUrl, [SERVICES_VARIABLE]: scratch, ...RUNNERS };
    const report = join(scratch, "report.xml");
    const first = await runTests([`--parallel=${PARALLEL_FILES}`, ...filters], report, shared);
    console.log(describeSlowest(report));
    const again = await runAgain(filters, first, scratch, shared);
    const failures = describeFailures(first.files, again);
    if (failures.length > 0) console.log(`\n${failures.join("\n")}`);
    console.log(`\n· ${seconds(startedAt)} in all`);
    const expected = filters.length === 0 ? [...new Bun.Glob("tests/**/*.test.ts").scanSync(ROOT)] : [];
    const totals = sumTotals(first, again, expected);
    if (totals.passed + totals.failed === 0) console.log("No test ran.");
    console.log(describeTotals(totals));
    return totals.failed > 0 || totals.passed === 0 ? 1 : 0;
  } finally {
    await server.stop();
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** What one call of the runner printed and reported. */
type TestRun = {
  files: ReadonlyMap<string, FileReport>;
  totals: ReadonlyMap<string, Totals>;
  isGood: boolean;
  /** It ended by itself and reported: not by a signal or a crash that took other files with it. */
  isWhole: boolean;
};

/** Failed files by themselves, one after the other. Not where the caller chose tests by a flag: which tests those are only the runner knows. */
async function runAgain(
  filters: readonly string[],
  { files, isWhole }: TestRun,
  scratch: string,
  shared: Record<string, string>,
): Promise<ReadonlyMap<string, TestRun>> {
  const failed = [...files].filter(([, { failed }]) => failed.length > 0).map(([file]) => file);
  const again = new Map<string, TestRun>();
  const isHopeless = !isWhole || failed.length > MAX_FLAKY_FILES || failed.includes(UNKNOWN_FILE);
  if (isHopeless || filters.some((filter) => filter.startsWith("-"))) return again;
  for (const [at, file] of failed.entries()) {
    console.log(`\n· ${file} once more, by itself`);
    again.set(file, await runTests([`./${file}`], join(scratch, `again-${at}.xml`), shared));
  }
  return again;
}

async function runTests(
  args: readonly string[],
  report: string,
  shared: Record<string, string>,
): Promise<TestRun> {
  const output = readRunOutput();
  const runner = await spawnBound({
    command: process.execPath,
    args: [
      // A developer's .env must not change what is tested.
      ...["--no-env-file", "test", `--timeout=${TEST_TIMEOUT_MS}`],
      // One module registry a worker: loading the packages for each file anew costs half a second of CPU.
      ...["--no-isolate", `--timings=${TIMINGS}`],
      ...["--reporter=junit", `--reporter-outfile=${report}`],
      ...args,
    ],
    cwd: ROOT,
    env: { ...process.env, ...shared },
    stopSignal: "SIGTERM",
    onOutput: (chunk) => {
      process.stdout.write(chunk);
      output.read(String(chunk));
    },
  });
  stopRunner = (signal) => runner.kill(signal);
  try {
    const code = await runner.exited;
    const xml = readReport(report);
    return {
      ...{ files: output.files, totals: readTotals(xml, output.files), isGood: code === 0 },
      isWhole: (code === 0 || code === 1) && xml.includes("</testsuites>"),
    };
  } finally {
    stopRunner = undefined;
  }
}

/** Seconds of each file, hooks included: where the next second is saved. */
function describeSlowest(report: string): string {
  const suites = readReport(report).matchAll(/<testsuite name="([^"]+\.test\.ts)"[^>]* time="([\d.]+)"/g);
  const slowest = [...suites]
    .map(([, file = "", time]) => ({ file, seconds: Number(time) }))
    .sort((one, other) => other.seconds - one.seconds)
    .slice(0, SLOWEST_SHOWN);
  return slowest.map(({ file, seconds }) => `· ${seconds.toFixed(1).padStart(6)} s ${file}`).join("\n");
}

function readReport(report: string): string {
  try {
    return readFileSync(report, "utf8");
  } catch {
    return "";
  }
}

function describeTotals({ passed, failed, skipped, flaky }: RunTotals): string {
  const named = [...(skipped > 0 ? [`${skipped} skipped`] : []), ...(flaky > 0 ? [`${flaky} flaky`] : [])];
  return [`${passed} passed, ${failed} failed`, ...named].join(", ");
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1000).toFixed(1)} s`;
}
