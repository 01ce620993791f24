/** The papers are true: every variable a process reads is in the README's table and in .env.example. */
import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { IDEMPOTENCY_KEYS_KEPT_DAYS } from "../core/domain/retention.ts";

const ROOT = join(import.meta.dir, "..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const CONFIGS = [
  "core/runtime/env.ts",
  "core/runtime/chain-env.ts",
  "api/config.ts",
  "worker/config.ts",
  "indexer/config.ts",
  "ops/backup/configuration.ts",
];

function variablesOf(path: string): string[] {
  return [...read(path).matchAll(/^ {2}([A-Z][A-Z0-9_]{3,}):/gm)].map((match) => match[1] ?? "");
}

const variables = [...new Set([...CONFIGS.flatMap(variablesOf), "DATA_DIR", "CHAIN_PORT", "BLOCK_TIME_S"])];

test("there are variables to check", () => {
  expect(variables.length).toBeGreaterThan(30);
});

for (const paper of ["README.md", ".env.example"]) {
  test(`${paper} names every environment variable`, () => {
    const text = read(paper);
    expect(variables.filter((name) => !new RegExp(`\\b${name}\\b`).test(text))).toEqual([]);
  });
}

for (const paper of ["README.md", "docs/OPERATIONS.md"]) {
  test(`every script that ${paper} names exists`, () => {
    const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
    const named = [...read(paper).matchAll(/(?:npm|bun) run ([a-z][a-z:-]*)/g)].map(
      (match) => match[1] ?? "",
    );
    expect(named.length).toBeGreaterThan(4);
    expect(named.filter((name) => !(name in scripts))).toEqual([]);
  });
}

test("every log line that the runbook quotes is one that a process writes", () => {
  const quoted = [...read("docs/OPERATIONS.md").matchAll(/log "([^"]+)"/g)].map(([, line = ""]) => line);
  expect(quoted.length).toBeGreaterThan(4);
  const sources = ["api", "worker", "indexer", "db", "core"]
    .flatMap((folder) => [...new Bun.Glob(`${folder}/**/*.ts`).scanSync(ROOT)])
    .map(read)
    .join("\n");
  expect(quoted.filter((line) => !sources.includes(line))).toEqual([]);
});

test("the CI workflow runs programs that exist, and the upgrade test with the full history", () => {
  const workflow = read(".github/workflows/ci.yml");
  const programs = [...workflow.matchAll(/run: (?:node bootstrap\.mjs --dev )?(\S+)$/gm)].map(
    ([, path = ""]) => path,
  );
  expect(programs).toEqual([".ci/run", "tests/ops/rolling-upgrade.ts"]);
  expect(programs.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  expect(workflow.slice(workflow.indexOf("upgrade:"))).toContain("fetch-depth: 0");
});

test("the release workflow runs programs and scripts that exist", () => {
  const workflow = read(".github/workflows/release.yml");
  const programs = [...workflow.matchAll(/bootstrap\.mjs (?:--dev )?(\S+\.ts)/g)].map(
    ([, path = ""]) => path,
  );
  expect(programs).toEqual(["web/build.ts", "local/sbom.ts", "sdk/build.ts"]);
  expect(programs.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
  const named = [...workflow.matchAll(/run: npm (?:run )?(\w+)$/gm)].map(([, name = ""]) => name);
  expect(named).toEqual(["check", "test"]);
  expect(named.filter((name) => !(name in scripts))).toEqual([]);
});

test("a filled-in .env and the backups of this folder are excluded from commits and images", () => {
  for (const file of [".gitignore", ".dockerignore"]) {
    const names = read(file)
      .split("\n")
      .map((line) => line.replace(/^\//, "").replace(/\/$/, ""));
    expect([file, ...[".env", ".env.*", "backups"].filter((name) => !names.includes(name))]).toEqual([file]);
  }
});

test("the guide says how long an Idempotency-Key is valid", () => {
  const kept = [...read("docs/guides/idempotency.md").matchAll(/\b(\d+ (?:hours|days))\b/g)].map(
    ([, time]) => time,
  );
  expect([...new Set(kept)]).toEqual([`${IDEMPOTENCY_KEYS_KEPT_DAYS} days`]);
});
