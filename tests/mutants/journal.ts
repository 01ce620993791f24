/** Verdicts of earlier runs, one a line: a change that a test detected is not tried again while its source stays the same. */
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Mutant } from "./list-mutants.ts";
import type { Verdict } from "./run-mutants.ts";

type Entry = {
  key: string;
  outcome: Verdict["outcome"];
  file: string;
  line: number;
  rule: string;
  tests: string[];
};

export type Journal = {
  /** The newest verdict about this very change of this very text. */
  find: (mutant: Mutant, text: string) => Verdict | undefined;
  add: (verdict: Verdict, text: string) => void;
};

export function openJournal(path: string): Journal {
  const lines = existsSync(path) ? readFileSync(path, "utf8").split("\n") : [];
  const entries = new Map(
    lines.filter(Boolean).map((line) => [JSON.parse(line).key, JSON.parse(line) as Entry]),
  );
  mkdirSync(dirname(path), { recursive: true });
  return {
    find: (mutant, text) => {
      const entry = entries.get(keyOf(mutant, text));
      return entry && { mutant, outcome: entry.outcome, tests: entry.tests, seconds: 0 };
    },
    add: ({ mutant, outcome, tests }, text) => {
      const { file, line, rule } = mutant;
      const entry: Entry = { key: keyOf(mutant, text), outcome, file, line, rule, tests };
      entries.set(entry.key, entry);
      appendFileSync(path, `${JSON.stringify(entry)}\n`);
    },
  };
}

/** By content: the same change of the same lines elsewhere in a grown file is judged again, which costs seconds. */
function keyOf({ file, start, rule, replacement }: Mutant, text: string): string {
  return String(Bun.hash([file, start, rule, replacement, text].join("\n")));
}
