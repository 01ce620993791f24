/** The papers are true: every variable a process reads is in the README's table and in .env.example. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";

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

test("every script the README names exists", () => {
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
  const named = [...read("README.md").matchAll(/(?:npm|bun) run ([a-z][a-z:-]*)/g)].map(
    (match) => match[1] ?? "",
  );
  expect(named.length).toBeGreaterThan(4);
  expect(named.filter((name) => !(name in scripts))).toEqual([]);
});
