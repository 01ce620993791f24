/**
 * What a run's output says about tests that failed: their errors and seeds, for the end of the log, which is often the only part of it
 * that is kept. A file that passed when it was run again has a fault to be found, too, in its tests or in the service.
 */

/** Of one error, when there is room. */
const ERROR_LINES = 15;
const ERROR_LINES_MIN = 4;
/** An error read whole: where its stack names the test's file may be far below the difference of two objects. */
const ERROR_LINES_READ = 200;
const ERRORS_OF_A_FILE = 6;
/** All files together: services that keep the end of a log keep some 150 lines of it. */
const REPORT_LINES = 110;

/** Instead of a file, of an error that names none. */
export const UNKNOWN_FILE = "(unknown file)";

const FILE = /^(tests\/\S+\.test\.ts):$/;
const OUTCOME = /^\((pass|fail|skip|todo)\) (.+?)(?: \[[\d.]+m?s\])?$/;
/** After the last file: the same tests once more, under no file's name. */
const SUMMARY = /^\d+ tests? (?:failed|skipped|todo):$/;
const CRASH = /^✗ (tests\/\S+\.test\.ts) \((.+)\)$/;
/** The line after a failed test, as in `  ^ this test timed out after 120000ms.` */
const REMARK = /^ {2}\^ (.+)/;
/** A file that did not load, or an error outside of a test: its text stands between two lines of dashes. */
const UNHANDLED = /^# Unhandled error between tests$/;
const DASHES = /^-{20,}$/;
/** An excerpt of the source comes before an error; its last line is where the error was made. */
const CODE = /^\s*\d+ \| /;
const CARET = /^\s+\^$/;
const STACK = /^\s+at /;
/** In a stack, or as the file that could not import another. */
const TEST_FILE = /(?:^|[(/\s'])(tests\/[^\s:']+\.test\.ts)(?=[:'])/;
const SEED = /^\S.*: TEST_SEED=\d+(?: in (tests\/\S+))?$/;

export type FailedTest = { name: string; remark?: string };

export type FileReport = { failed: FailedTest[]; errors: string[][]; seeds: Set<string> };

/**
 * Reads the runner's output as it is written, in chunks of any size. Outcomes stand under the name of their file; what a test printed
 * comes from another process and may stand under another file's name, so an error belongs to the file that its stack names.
 */
export function readRunOutput(): { read: (chunk: string) => void; files: ReadonlyMap<string, FileReport> } {
  const files = new Map<string, FileReport>();
  let [file, rest, previous] = ["", "", ""];
  let error: string[] | undefined;
  let isUnhandled = false;
  let isOver = false;
  const reportOf = (name: string) => {
    const report = files.get(name) ?? { failed: [], errors: [], seeds: new Set<string>() };
    files.set(name, report);
    return report;
  };
  const endError = () => {
    if (error === undefined) return;
    const named = error.map((line) => TEST_FILE.exec(line)?.[1]).find((name) => name !== undefined);
    // an unhandled error stands wherever the output was when it came
    const report = reportOf(named ?? (isUnhandled ? UNKNOWN_FILE : file));
    report.errors.push(error);
    if (isUnhandled) report.failed.push({ name: "unhandled error between tests" });
    error = undefined;
    isUnhandled = false;
  };
  const fail = (name: string, test: FailedTest) => {
    endError();
    reportOf(name).failed.push(test);
  };
  const readLine = (line: string) => {
    isOver ||= SUMMARY.test(line);
    if (isOver) return endError();
    const header = FILE.exec(line)?.[1];
    const crash = CRASH.exec(line);
    const outcome = OUTCOME.exec(line);
    const remark = REMARK.exec(line)?.[1];
    const lastFailed = files.get(file)?.failed.at(-1);
    const seed = SEED.exec(line);
    if (seed !== null) reportOf(seed[1] ?? file).seeds.add(line);
    else if (header !== undefined) {
      endError();
      file = header;
    } else if (crash !== null) fail(crash[1] ?? file, { name: crash[2] ?? "" });
    else if (outcome !== null) {
      endError();
      const [, how, name = ""] = outcome;
      if (how === "fail") fail(file, { name });
    } else if (UNHANDLED.test(line)) {
      endError();
      isUnhandled = true;
    } else if (isUnhandled && DASHES.test(line)) {
      if (error === undefined) error = [];
      else endError();
    } else if (remark !== undefined && lastFailed !== undefined && error === undefined)
      lastFailed.remark = remark;
    else readPrinted(line);
    previous = line;
  };
  const readPrinted = (line: string) => {
    if (CARET.test(line) && CODE.test(previous)) {
      endError();
      error = [previous.trim()];
    } else if (error === undefined || line.trim() === "") return;
    else if (error.length >= ERROR_LINES_READ || (STACK.test(error.at(-1) ?? "") && !STACK.test(line)))
      endError();
    else error.push(line.trimEnd());
  };
  return {
    files,
    read: (chunk) => {
      const lines = (rest + Bun.stripANSI(chunk)).split("\n");
      rest = lines.pop() ?? "";
      lines.forEach(readLine);
    },
  };
}

type AnotherRun = { files: ReadonlyMap<string, FileReport>; isGood: boolean };

/** Files that failed to the end first, then those that passed when they were run `again`. Empty when every file passed at once. */
export function describeFailures(
  files: ReadonlyMap<string, FileReport>,
  again: ReadonlyMap<string, AnotherRun> = new Map(),
): string[] {
  const isFlaky = (file: string) => again.get(file)?.isGood === true;
  const reports = [...files]
    .filter(([, { failed }]) => failed.length > 0)
    .map(([file, report]) => ({ file, report: joinReports(report, again.get(file)?.files.get(file)) }))
    .sort((one, other) => Number(isFlaky(one.file)) - Number(isFlaky(other.file)));
  const errors = reports.reduce(
    (sum, { report }) => sum + Math.min(report.errors.length, ERRORS_OF_A_FILE),
    0,
  );
  const room = Math.floor(REPORT_LINES / Math.max(1, errors)) - reports.length;
  const limit = Math.min(ERROR_LINES, Math.max(ERROR_LINES_MIN, room));
  const lines = reports.flatMap(({ file, report }) => [
    `· ${file}${isFlaky(file) ? " (flaky: passed when it was run again)" : ""}`,
    ...describeFile(report, limit),
  ]);
  if (lines.length <= REPORT_LINES) return lines;
  return [
    ...lines.slice(0, REPORT_LINES),
    `· and ${lines.length - REPORT_LINES} more lines about failed tests`,
  ];
}

/** Both runs often fail alike. */
function joinReports(first: FileReport, second: FileReport | undefined): FileReport {
  if (second === undefined) return first;
  const tests = new Map([...second.failed, ...first.failed].map((one) => [one.name, one]));
  return {
    failed: [...tests.values()],
    errors: [...first.errors, ...second.errors],
    seeds: new Set([...first.seeds, ...second.seeds]),
  };
}

function describeFile({ failed, errors, seeds }: FileReport, limit: number): string[] {
  const outcomes = failed.map(
    ({ name, remark }) => `  failed: ${name}${remark === undefined ? "" : ` (${remark})`}`,
  );
  const distinct = new Map(errors.map((error) => [error.join("\n"), error]));
  const texts = [...distinct.values()].slice(0, ERRORS_OF_A_FILE).flatMap((error) => cutError(error, limit));
  return [...outcomes, ...[...seeds].map((seed) => `  ${seed}`), ...texts];
}

/** Its first lines, and the line of the test's file wherever the stack has it. */
function cutError(error: readonly string[], limit: number): string[] {
  const place = error.findIndex((line) => TEST_FILE.test(line));
  const shown = error.slice(0, limit);
  if (place >= limit) shown.push(error[place] ?? "");
  return shown.map((line, at) => (at === 0 ? `  - ${line}` : `    ${line}`));
}
