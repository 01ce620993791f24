/**
 * What a run's output says about tests that failed, once or in every attempt: their errors and seeds, for the end of the log, which is
 * often the only part of it that is kept. A test that passed when it was run again is a fault to be found, too, in the test or in the service.
 */

/** More flaky tests than this in a run are not the machine. */
export const MAX_FLAKY = 3;
/** Of one error, when there is room. */
const ERROR_LINES = 15;
const ERROR_LINES_MIN = 4;
/** An error read whole: where its stack names the test's file may be far below the difference of two objects. */
const ERROR_LINES_READ = 200;
const ERRORS_OF_A_FILE = 6;
/** All files together: services that keep the end of a log keep some 150 lines of it. */
const REPORT_LINES = 110;

const FILE = /^(tests\/\S+\.test\.ts):$/;
const OUTCOME = /^\((pass|fail|skip|todo)\) (.+?)(?: \(attempt (\d+)\))?(?: \[[\d.]+m?s\])?$/;
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

/** How a test ended badly; `isFlaky`: it passed when it was run again. */
export type FailedTest = { name: string; isFlaky: boolean; remark?: string };

type FileReport = { failed: FailedTest[]; errors: string[][]; seeds: Set<string> };

/**
 * Reads the runner's output as it is written, in chunks of any size. Outcomes stand under the name of their file; what a test printed
 * comes from another process and may stand under another file's name, so an error belongs to the file that its stack names.
 */
export function readRunOutput(): { read: (chunk: string) => void; files: ReadonlyMap<string, FileReport> } {
  const files = new Map<string, FileReport>();
  let [file, rest, previous] = ["", "", ""];
  let error: string[] | undefined;
  let isUnhandled = false;
  const reportOf = (name: string) => {
    const report = files.get(name) ?? { failed: [], errors: [], seeds: new Set<string>() };
    files.set(name, report);
    return report;
  };
  const endError = () => {
    if (error === undefined) return;
    const named = error.map((line) => TEST_FILE.exec(line)?.[1]).find((name) => name !== undefined);
    const report = reportOf(named ?? file);
    report.errors.push(error);
    if (isUnhandled) report.failed.push({ name: "unhandled error between tests", isFlaky: false });
    error = undefined;
    isUnhandled = false;
  };
  const fail = (name: string, test: FailedTest) => {
    endError();
    reportOf(name).failed.push(test);
  };
  const readLine = (line: string) => {
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
    } else if (crash !== null) fail(crash[1] ?? file, { name: crash[2] ?? "", isFlaky: false });
    else if (outcome !== null) {
      endError();
      const [, how, name = "", attempt = "1"] = outcome;
      const isFlaky = how === "pass" && attempt !== "1";
      if (how === "fail" || isFlaky) fail(file, { name, isFlaky });
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

export function listFlaky(files: ReadonlyMap<string, FileReport>): string[] {
  return [...files].flatMap(([file, { failed }]) =>
    failed.filter((test) => test.isFlaky).map((test) => `${file}: ${test.name}`),
  );
}

/** Files with failed tests first. Empty when every test passed at once. */
export function describeFailures(files: ReadonlyMap<string, FileReport>): string[] {
  const isOnlyFlaky = ([, { failed }]: [string, FileReport]) => Number(failed.every((test) => test.isFlaky));
  const reports = [...files]
    .filter(([, { failed }]) => failed.length > 0)
    .sort((one, other) => isOnlyFlaky(one) - isOnlyFlaky(other));
  const errors = reports.reduce((sum, [, file]) => sum + Math.min(file.errors.length, ERRORS_OF_A_FILE), 0);
  const room = Math.floor(REPORT_LINES / Math.max(1, errors)) - reports.length;
  const limit = Math.min(ERROR_LINES, Math.max(ERROR_LINES_MIN, room));
  const lines = reports.flatMap(([name, file]) => [`· ${name}`, ...describeFile(file, limit)]);
  if (lines.length <= REPORT_LINES) return lines;
  return [
    ...lines.slice(0, REPORT_LINES),
    `· and ${lines.length - REPORT_LINES} more lines about failed tests`,
  ];
}

function describeFile({ failed, errors, seeds }: FileReport, limit: number): string[] {
  const outcomes = failed.map(({ name, isFlaky, remark }) => {
    const how = isFlaky ? "flaky, passed when run again" : "failed";
    return `  ${how}: ${name}${remark === undefined ? "" : ` (${remark})`}`;
  });
  // both attempts often fail alike
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
