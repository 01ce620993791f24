/** Which of the two the command runs: the file that was built, or the sources. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const BIN = join(import.meta.dir, "../../cli/bin.mjs");
const BUILT_AT = new Date("2026-01-02T00:00:00Z");
const EARLIER = new Date("2026-01-01T00:00:00Z");
const LATER = new Date("2026-01-03T00:00:00Z");
const SOURCES = ["package.json", "cli/main.ts", "sdk/client.ts", "mcp/server.ts"];
const BUILT = "cli/dist/usdc.mjs";

let project: string;
beforeEach(() => {
  project = mkdtempSync(join(tmpdir(), "cli-project-"));
  write("bootstrap.mjs", "console.log('sources', process.argv.slice(2).join(' '))", EARLIER);
  mkdirSync(join(project, "cli"), { recursive: true });
  copyFileSync(BIN, join(project, "cli/bin.mjs"));
});
afterEach(() => rmSync(project, { recursive: true }));

function write(file: string, text: string, at: Date): void {
  const path = join(project, file);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  utimesSync(path, at, at);
}

function run(): string {
  const node = Bun.which("node") ?? process.execPath;
  const { stdout } = Bun.spawnSync([node, join(project, "cli/bin.mjs"), "help"], { stderr: "inherit" });
  return stdout.toString().trim();
}

test("the built file runs while no source has changed since", () => {
  for (const source of SOURCES) write(source, "{}", EARLIER);
  write(BUILT, "console.log('built')", BUILT_AT);
  expect(run()).toBe("built");
});

test.each(SOURCES)("the sources run when %s is newer than the built file", (changed) => {
  for (const source of SOURCES) write(source, "{}", source === changed ? LATER : EARLIER);
  write(BUILT, "console.log('built')", BUILT_AT);
  expect(run()).toBe("sources cli/main.ts help");
});

test("the sources run when nothing was built", () => {
  for (const source of SOURCES) write(source, "{}", EARLIER);
  expect(run()).toBe("sources cli/main.ts help");
});

test("the built file runs where there are no sources", () => {
  write(BUILT, "console.log('built')", BUILT_AT);
  expect(run()).toBe("built");
});
