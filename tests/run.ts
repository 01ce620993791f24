/**
 * `npm test`: one Postgres and one build of the processes for the whole run, the slowest files, what failed and why, one plain line at the end. Files start
 * in the order of tests/timings.json, the slowest first; `npm test -- --update-timings` measures them again.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnBound } from "../local/processes/bound-process.ts";
import { compileServices, SERVICES_VARIABLE } from "./support/compiled-services.ts";
import { prepareTemplate, SERVER_URL_VARIABLE } from "./support/postgres.ts";
import { startTestServer } from "./support/postgres-server.ts";
import { describeFailures, listFlaky, MAX_FLAKY, readRunOutput } from "./support/run-output.ts";

type Totals = { passed: number; failed: number; skipped: number; flaky: number };

/** On two cores: more files at a time end little sooner, and starve those that wait for a block or a lease. */
const PARALLEL_FILES = 5;
const TIMINGS = "tests/timings.json";
const TEST_TIMEOUT_MS = 120_000;
/** A test that fails runs once more, so that one race in thousands of tests does not stop a delivery; the totals name it. */
const RETRIES = 1;
const SLOWEST_SHOWN = 12;

process.exitCode = await run(process.argv.slice(2));

/** `filters` are passed on to the runner: parts of file names, or its flags. Returns the exit code. */
async function run(filters: readonly string[]): Promise<number> {
  const startedAt = performance.now();
  const scratch = mkdtempSync(join(tmpdir(), "test-run-"));
  const server = await startTestServer();
  try {
    await prepareTemplate(server.adminUrl);
    await compileServices(scratch);
    console.log(`· ${server.description} and the compiled services are ready (${seconds(startedAt)})`);
    const report = join(scratch, "report.xml");
    const { code, files } = await runTests(filters, report, {
      [SERVER_URL_VARIABLE]: server.adminUrl,
      [SERVICES_VARIABLE]: scratch,
    });
    const totals = { ...readTotals(report, code), flaky: listFlaky(files).length };
    console.log(describeSlowest(report));
    const failures = describeFailures(files);
    if (failures.length > 0) console.log(`\n${failures.join("\n")}`);
    console.log(`\n· ${seconds(startedAt)} in all`);
    if (totals.passed + totals.failed === 0) console.log("No test ran.");
    console.log(describeTotals(totals));
    return totals.failed > 0 || totals.passed === 0 || totals.flaky > MAX_FLAKY ? 1 : 0;
  } finally {
    await server.stop();
    rmSync(scratch, { recursive: true, force: true });
  }
}

async function runTests(
  filters: readonly string[],
  report: string,
  shared: Record<string, string>,
): Promise<{ code: number | string; files: ReturnType<typeof readRunOutput>["files"] }> {
  const output = readRunOutput();
  const runner = await spawnBound({
    command: process.execPath,
    args: [
      // A developer's .env must not change what is tested.
      ...["--no-env-file", "test", `--parallel=${PARALLEL_FILES}`, `--timeout=${TEST_TIMEOUT_MS}`],
      // One module registry a worker: loading the packages for each file anew costs half a second of CPU.
      ...["--no-isolate", `--timings=${TIMINGS}`, `--retry=${RETRIES}`],
      ...["--reporter=junit", `--reporter-outfile=${report}`],
      ...filters,
    ],
    cwd: join(import.meta.dir, ".."),
    env: { ...process.env, ...shared },
    stopSignal: "SIGTERM",
    onOutput: (chunk) => {
      process.stdout.write(chunk);
      output.read(String(chunk));
    },
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => runner.kill(signal));
  return { code: await runner.exited, files: output.files };
}

/** A run that ended badly without a failed test (a file that did not load, a crash) counts as one failure. */
function readTotals(report: string, code: number | string): Omit<Totals, "flaky"> {
  const head = readRootTag(report);
  const count = (name: string) => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(head)?.[1] ?? 0);
  const [all, skipped] = [count("tests"), count("skipped")];
  const reported = count("failures") + count("errors");
  const failed = code !== 0 && reported === 0 ? 1 : reported;
  return { passed: Math.max(0, all - skipped - reported), failed, skipped };
}

function readRootTag(report: string): string {
  return /<testsuites[^>]*>/.exec(readReport(report))?.[0] ?? "";
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

function describeTotals({ passed, failed, skipped, flaky }: Totals): string {
  const named = [...(skipped > 0 ? [`${skipped} skipped`] : []), ...(flaky > 0 ? [`${flaky} flaky`] : [])];
  return [`${passed} passed, ${failed} failed`, ...named].join(", ");
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1000).toFixed(1)} s`;
}
