/** Output of benchmarks: JSON lines, a Markdown table, and a description of the machine. */
import { cpus, totalmem } from "node:os";

export type Row = Record<string, string | number>;

/** Of sorted values; one decimal. */
export function percentile(sorted: readonly number[], share: number): number {
  const value = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return Math.round(value * 10) / 10;
}

export function describeMachine(): string {
  const [cpu] = cpus();
  return `${cpus().length} x ${cpu?.model.trim() ?? "unknown CPU"}, ${Math.round(totalmem() / 2 ** 30)} GiB, Bun ${Bun.version}`;
}

/** A Markdown table; columns in the order of the first row. The column `bench` is omitted. */
export function printTable(rows: readonly Row[]): void {
  const columns = Object.keys(rows[0] ?? {}).filter((name) => name !== "bench");
  console.log(`\n| ${columns.join(" | ")} |`);
  console.log(`|${columns.map(() => "---").join("|")}|`);
  for (const row of rows) console.log(`| ${columns.map((name) => row[name] ?? "").join(" | ")} |`);
}

/** Two decimals. */
export function round(value: number): number {
  return Math.round(value * 100) / 100;
}
