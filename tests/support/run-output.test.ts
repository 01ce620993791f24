/** The end of a run's log explains its failures: read from what the runner really prints for files that fail in every way. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describeFailures, readRunOutput } from "./run-output.ts";
import { readTotals, sumTotals } from "./run-totals.ts";

/** Apart, so that it is not read as an import of this file. */
const IMPORT = "import";
const FILES: Record<string, string> = {
  "fails-twice": `
test("the sum is right", async () => { await Bun.sleep(5); expect({ sum: 1 + 1 }).toEqual({ sum: 3 }); });
test("the rest is right", () => {});`,
  "fails-once": `
const isFirst = process.env.RUN === "1";
console.log("drawn amounts: TEST_SEED=4711 in tests/fails-once.test.ts");
test("a second run passes", async () => { await Bun.sleep(5); if (isFirst) throw new Error("only the first run"); });
test.skip("not today", () => {});`,
  hangs: `
test("an answer comes", () => new Promise(() => {}), 200);`,
  hook: `
beforeAll(() => { throw new Error("no world to test in"); });
test("never begun", () => {});`,
  "does-not-load": `
${IMPORT} { nothing } from "./no-such-file.ts";
test("never loaded", () => nothing());`,
  crashes: `
test("the process ends", () => process.exit(3));`,
  passes: `
console.log("quiet: TEST_SEED=1 in tests/passes.test.ts");
test("all is well", () => {});`,
};
const RUN_TIMEOUT_MS = 90_000;
let folder: string;
let first: Awaited<ReturnType<typeof runFiles>>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "run-output-"));
  mkdirSync(join(folder, "tests"));
  for (const [name, text] of Object.entries(FILES))
    writeFileSync(
      join(folder, "tests", `${name}.test.ts`),
      `import { beforeAll, expect, test } from "bun:test";${text}`,
    );
  first = await runFiles({ RUN: "1" }, ["--parallel=2"]);
}, RUN_TIMEOUT_MS);

async function runFiles(env: Record<string, string>, args: readonly string[]) {
  const report = join(folder, "report.xml");
  const run = Bun.spawn(
    [
      ...[process.execPath, "--no-env-file", "test", "--no-isolate", ...args],
      ...["--reporter=junit", `--reporter-outfile=${report}`],
    ],
    { cwd: folder, env: { ...process.env, ...env }, stdout: "pipe", stderr: "pipe" },
  );
  const [out, error, code] = await Promise.all([run.stdout.text(), run.stderr.text(), run.exited]);
  const reader = readRunOutput();
  const printed = `${out}\n${error}`;
  reader.read(printed);
  const totals = readTotals(await Bun.file(report).text(), reader.files);
  return { printed, files: reader.files, totals, isGood: code === 0, isWhole: true };
}

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("each failed file is reported with its tests, their errors and its seeds", () => {
  const report = reportOf(first.printed);
  const linesOf = (name: string) =>
    report.split("\n· ").find((part) => part.includes(`tests/${name}.test.ts\n`));
  expect(linesOf("fails-twice")).toContain("failed: the sum is right");
  expect(linesOf("fails-twice")).toMatch(/- 2 \| test\("the sum is right"[\s\S]*\+ {3}"sum": 2,/);
  expect(linesOf("fails-once")).toContain("failed: a second run passes");
  expect(linesOf("fails-once")).toContain("error: only the first run");
  expect(linesOf("fails-once")).toContain("drawn amounts: TEST_SEED=4711");
  expect(linesOf("hangs")).toContain("failed: an answer comes (this test timed out after 200ms.)");
  expect(linesOf("hook")).toContain("error: no world to test in");
  expect(linesOf("does-not-load")).toMatch(
    /unhandled error between tests\n.*Cannot find module '\.\/no-such-file\.ts'/,
  );
  expect(linesOf("crashes")).toContain("failed: worker crashed: exit code 3");
  expect(report).not.toContain("passes.test.ts");
  expect(report).not.toContain("the rest is right");
});

test(
  "a file that passes when it is rerun is flaky and counts as passed; one that fails again has failed",
  async () => {
    const names = ["tests/fails-once.test.ts", "tests/fails-twice.test.ts", "tests/does-not-load.test.ts"];
    const again = new Map<string, typeof first>();
    for (const name of names) again.set(name, await runFiles({ RUN: "2" }, [`./${name}`]));
    expect(sumTotals(first, new Map())).toEqual({ passed: 2, failed: 6, skipped: 1, flaky: 0 });
    expect(sumTotals(first, again)).toEqual({ passed: 3, failed: 5, skipped: 1, flaky: 1 });
    const report = describeFailures(first.files, again);
    expect(report.at(-1)).toContain("tests/fails-once.test.ts:");
    expect(report).toContain("· tests/fails-once.test.ts (flaky: passed when it was run again)");
    expect(report).toContain("· tests/fails-twice.test.ts");
  },
  RUN_TIMEOUT_MS,
);

test("a run that crashed, or ended badly without a failed test, has failed", () => {
  const totals = new Map([["tests/a.test.ts", { passed: 1, failed: 0, skipped: 0 }]]);
  const failed = (run: { isGood: boolean; isWhole: boolean }) =>
    sumTotals({ totals, ...run }, new Map()).failed;
  expect(failed({ isGood: true, isWhole: true })).toBe(0);
  expect(failed({ isGood: false, isWhole: true })).toBe(1);
  expect(failed({ isGood: false, isWhole: false })).toBe(1);
});

test("a file that was not run has failed, even next to one that passed on its rerun", () => {
  const run = (failed: number) => ({
    totals: new Map([["tests/a.test.ts", { passed: 1, failed, skipped: 0 }]]),
    ...{ isGood: failed === 0, isWhole: true },
  });
  const again = new Map([["tests/a.test.ts", run(0)]]);
  const expected = ["tests/a.test.ts", "tests/b.test.ts"];
  expect(sumTotals(run(1), again, expected)).toEqual({ passed: 1, failed: 1, skipped: 0, flaky: 1 });
});

test("an unhandled error that names no file belongs to an unknown file, and is a failure", () => {
  const reader = readRunOutput();
  const dashes = "-".repeat(31);
  const text = ["# Unhandled error between tests", dashes, "error: write EPIPE", dashes];
  reader.read(["", "tests/one.test.ts:", "(pass) a is b [5.00ms]", ...text, "", ""].join("\n"));
  expect([...reader.files.keys()]).toEqual(["(unknown file)"]);
  const one = { passed: 1, failed: 0, skipped: 0 };
  const totals = readTotals('<testsuite name="n" file="tests/one.test.ts" tests="1">', reader.files);
  expect(totals).toEqual(
    new Map([
      ["tests/one.test.ts", one],
      ["(unknown file)", { ...one, passed: 0, failed: 1 }],
    ]),
  );
});

test("the list of failed tests at the end of a run adds none to the last file", () => {
  const reader = readRunOutput();
  const files = [
    "",
    "tests/one.test.ts:",
    "(fail) a is b [5.00ms]",
    "",
    "tests/two.test.ts:",
    "(pass) c is d [1.00ms]",
    "",
  ];
  reader.read(
    [...files, "1 tests failed:", "(fail) a is b [5.00ms]", "", " 1 pass", " 1 fail", ""].join("\n"),
  );
  expect([...reader.files.keys()]).toEqual(["tests/one.test.ts"]);
});

test("suites within a file count once", () => {
  const suite = (line: string, tests: number) =>
    `<testsuite name="n" file="tests/a.test.ts" ${line}tests="${tests}" failures="0" skipped="1">`;
  const xml = `${suite("", 5)}${suite('line="3" ', 4)}`;
  expect(readTotals(xml, new Map())).toEqual(
    new Map([["tests/a.test.ts", { passed: 4, failed: 0, skipped: 1 }]]),
  );
});

test("output cut into small chunks gives the same result", () => {
  const reader = readRunOutput();
  for (let at = 0; at < first.printed.length; at += 7) reader.read(first.printed.slice(at, at + 7));
  expect(describeFailures(reader.files).join("\n")).toBe(reportOf(first.printed));
});

test("an error printed under another file's name belongs to the file that its stack names", () => {
  const report = reportOf(
    [
      ...["", "tests/one.test.ts:", "(fail) a is b [5.00ms]", "", "tests/two.test.ts:"],
      ...["7 |   expect(a).toBe(b);", "              ^", "error: a is not b"],
      ...["      at <anonymous> (/app/tests/one.test.ts:7:15)", "(fail) c is d [1.20s]", ""],
    ].join("\n"),
  );
  expect(report).toBe(
    [
      ...["· tests/one.test.ts", "  failed: a is b", "  - 7 |   expect(a).toBe(b);", "    error: a is not b"],
      ...[
        "          at <anonymous> (/app/tests/one.test.ts:7:15)",
        "· tests/two.test.ts",
        "  failed: c is d",
      ],
    ].join("\n"),
  );
});

test("however much fails, the report stays within the lines that the end of a log shows", () => {
  const many = Array.from({ length: 60 }, (_, at) =>
    [
      ...[`tests/f${at}.test.ts:`, "1 | fail();", "    ^", `error: number ${at}`],
      ...[
        "  difference",
        "  difference",
        "  difference",
        "  difference",
        "  difference",
        `(fail) t${at} [1.00ms]`,
        "",
      ],
    ].join("\n"),
  );
  const lines = reportOf(many.join("\n")).split("\n");
  expect(lines.length).toBe(111);
  expect(lines.at(-1)).toMatch(/^· and \d+ more lines about failed tests$/);
});

function reportOf(output: string): string {
  const reader = readRunOutput();
  reader.read(output);
  return describeFailures(reader.files).join("\n");
}
