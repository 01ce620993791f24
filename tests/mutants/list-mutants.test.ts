// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the samples are source text
import { expect, test } from "bun:test";
import { applyMutant, listMutants } from "./list-mutants.ts";
import { scanSource } from "./scan-source.ts";

/** The changed lines of every mutant a rule makes. */
function changesOf(text: string, rule?: string): string[] {
  return listMutants("db/x.ts", text)
    .filter((mutant) => rule === undefined || mutant.rule === rule)
    .map((mutant) => applyMutant(text, mutant));
}

test("scanSource tells code, comments, strings, templates and SQL apart, including inside an interpolation", () => {
  const text = 'a; // b\n"c" + `d ${e("f")} g`; /* h */ sql`select ${i(`j`)} where k`;';
  const contextOf = (char: string) => scanSource(text)[text.indexOf(char)];
  expect(["b", "h"].map(contextOf)).toEqual(["comment", "comment"]);
  expect(contextOf("c")).toBe("string");
  expect(contextOf("f")).toBe("string");
  expect(["d ", " g"].map(contextOf)).toEqual(["template", "template"]);
  expect(["e(", "i("].map(contextOf)).toEqual(["code", "code"]);
  expect(contextOf("j")).toBe("template");
  expect(contextOf("where")).toBe("sql");
});

test("a condition of several lines is dropped with all that its brackets enclose, and nothing around it", () => {
  const text = "await tx`\n  select 1\n  where a\n    and (\n      b\n      or c\n    )\n    and d`;";
  expect(changesOf(text, "drop and")).toEqual([
    "await tx`\n  select 1\n  where a\n\n    and d`;",
    "await tx`\n  select 1\n  where a\n    and (\n      b\n      or c\n    )\n`;",
  ]);
  expect(changesOf(text, "drop or")).toEqual([
    "await tx`\n  select 1\n  where a\n    and (\n      b\n\n    )\n    and d`;",
  ]);
});

test("a condition is dropped with the values that it interpolates", () => {
  const text = "await tx`\n  select 1\n  where a = 1\n    and b = ${f({ c: (1) })}\n    and d`;";
  expect(changesOf(text, "drop and")[0]).toBe("await tx`\n  select 1\n  where a = 1\n\n    and d`;");
});

test("each condition on one line is dropped separately", () => {
  const text = "await tx`\n  select 1\n  where a = 1 and b is null and c > 2`;";
  expect(changesOf(text, "drop and")).toEqual([
    "await tx`\n  select 1\n  where a = 1 and c > 2`;",
    "await tx`\n  select 1\n  where a = 1 and b is null`;",
  ]);
});

test("the first condition of a line is dropped without those that are joined to it", () => {
  const text = "await tx`\n  select 1\n  where a = ${b} and c is null\n    and d = 1 and (e and f)`;";
  expect(changesOf(text, "drop the first of a line")).toEqual([
    "await tx`\n  select 1\n  where c is null\n    and d = 1 and (e and f)`;",
    "await tx`\n  select 1\n  where a = ${b} and c is null\n    and (e and f)`;",
  ]);
});

test("comparisons are moved by one case in TypeScript and in SQL", () => {
  expect(changesOf("const x = a < b;")).toEqual(["const x = a <= b;"]);
  expect(changesOf("const x = a >= b;")).toEqual(["const x = a > b;"]);
  expect(changesOf("await tx`select 1 where a <= 1`;", "<= to <")).toEqual([
    "await tx`select 1 where a < 1`;",
  ]);
  expect(changesOf("await tx`select 1 where a <= now()`;", "<= to <")).toEqual([]);
});

test("a limit is raised by one, with its digit separators removed", () => {
  expect(changesOf("const UNKNOWN_OUTCOME_MAX_S = 3_600;")).toEqual(["const UNKNOWN_OUTCOME_MAX_S = 3601;"]);
  expect(changesOf("export const DUST_UNITS = 999n;")).toEqual(["export const DUST_UNITS = 1000n;"]);
});

test("a guard on one line is dropped; a state in a list is dropped from either end", () => {
  expect(changesOf("  if (a) return undefined;", "drop guard")).toEqual(["  "]);
  expect(changesOf("  if (rows.length === 0) return [];", "drop guard")).toEqual([]);
  const text = "await tx`select 1 where state in ('QUEUED', 'SIGNED', 'BROADCAST')`;";
  expect([
    ...changesOf(text, "drop a value of in (…)"),
    ...changesOf(text, "drop the last value of in (…)"),
  ]).toEqual([
    "await tx`select 1 where state in ('SIGNED', 'BROADCAST')`;",
    "await tx`select 1 where state in ('QUEUED', 'SIGNED')`;",
  ]);
});

test("comments, imports, strings and arrows are not changed", () => {
  expect(
    changesOf('// a === b\nimport { c } from "./d < e";\nconst f = "g && h";\nconst i = (j) => k;'),
  ).toEqual([]);
});
