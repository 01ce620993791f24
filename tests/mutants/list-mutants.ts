/** Every small change of a source file's conditions, in TypeScript and in its SQL, that a test should notice. */
import { type Context, scanSource } from "./scan-source.ts";

export type Mutant = {
  file: string;
  /** Counted from 1. */
  line: number;
  /** The rule that made it: "drop and", "< to <=". */
  rule: string;
  start: number;
  end: number;
  replacement: string;
};

type Rule = {
  rule: string;
  in: "code" | "sql";
  /** Global; the whole match is replaced. */
  pattern: RegExp;
  replacement: string | ((match: RegExpMatchArray) => string | undefined);
  /** Only on lines like this. */
  line?: RegExp;
  /** Not on lines like this. */
  exceptLine?: RegExp;
};

const SQL_CONDITION = /^\s*(where|and|or|on|when|join|not)\b|\bwhere\b|\bwhen\b/;
const NOT_A_CONDITION = /^\s*(import|export type|type|\/\*|\*|\/\/)/;
/** Whether a time is over at the very microsecond of the transaction's own clock is decided either way. */
const AT_THIS_MOMENT = /\bnow\(\)/;

function swap(context: Rule["in"], from: string, to: string, line?: RegExp): Rule {
  const pattern = new RegExp(from.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"), "g");
  return {
    rule: `${from.trim()} to ${to.trim()}`,
    in: context,
    pattern,
    replacement: to,
    ...(line ? { line } : {}),
  };
}

function moveBoundary(context: Rule["in"], from: string, to: string): Rule {
  return { ...swap(context, from, to), exceptLine: AT_THIS_MOMENT };
}

const RULES: readonly Rule[] = [
  swap("code", " === ", " !== "),
  swap("code", " !== ", " === "),
  swap("code", " && ", " || "),
  swap("code", " || ", " && "),
  swap("code", ".some(", ".every("),
  swap("code", ".every(", ".some("),
  swap("code", "Math.max(", "Math.min("),
  swap("code", "Math.min(", "Math.max("),
  swap("code", "return true;", "return false;"),
  swap("code", "return false;", "return true;"),
  { rule: "drop !", in: "code", pattern: /(?<=[\s(])!(?=[a-zA-Z(])/g, replacement: "" },
  { rule: "drop + 1 or - 1", in: "code", pattern: / [+-] 1n?\b/g, replacement: "" },
  {
    rule: "limit one higher",
    in: "code",
    pattern: /(?<=^(?:export )?const [A-Z_]+ = )(\d[\d_]*)(n?)(?=;)/gm,
    replacement: ([, digits = "", suffix = ""]) => `${BigInt(digits.replaceAll("_", "")) + 1n}${suffix}`,
  },
  {
    rule: "drop guard",
    in: "code",
    // A return for an empty list only saves a statement.
    pattern: /(?<=^\s*)if \((?!\w+\.length === 0\) return).*\) (?:return|continue|throw)\b.*;$/gm,
    replacement: "",
  },
  ...(["code", "sql"] as const).flatMap((context) => [
    moveBoundary(context, " < ", " <= "),
    moveBoundary(context, " <= ", " < "),
    moveBoundary(context, " > ", " >= "),
    moveBoundary(context, " >= ", " > "),
  ]),
  swap("sql", " = ", " <> ", SQL_CONDITION),
  swap("sql", " <> ", " = "),
  swap("sql", " is null", " is not null"),
  swap("sql", " is not null", " is null"),
  swap("sql", " is distinct from ", " is not distinct from "),
  swap("sql", "not exists", "exists"),
  swap("sql", "least(", "greatest("),
  swap("sql", "greatest(", "least("),
  swap("sql", " + ", " - "),
  {
    rule: "drop and",
    in: "sql",
    pattern: /(?<=\S) and [^\n]+?(?= and |$| then |\)$|`)/gm,
    replacement: (match) => balanced(match[0], ""),
    line: SQL_CONDITION,
  },
  {
    rule: "drop the first of a line",
    in: "sql",
    // what `and` joins to it stays
    pattern: /(?<=\bwhere |^[ \t]*and )(?!exists|not exists)(?:(?! and )[^\n`])+ and (?=\S)/gm,
    replacement: (match) => balanced(match[0], ""),
  },
  {
    rule: "where true",
    in: "sql",
    pattern: /(?<=^\s*where ).+$/gm,
    replacement: (match) => balanced(match[0], "true"),
  },
  {
    rule: "never this case",
    in: "sql",
    pattern: /(?<=^\s*when )(?=exists|not|\w+(?:\.\w+)? (?:=|<|>|is|in)\b)/gm,
    replacement: "false and ",
  },
  {
    rule: "drop a value of in (…)",
    in: "sql",
    pattern: /\bin \(('[A-Z_]+'(?:, '[A-Z_]+')+)\)/g,
    replacement: ([, list = ""]) => `in (${list.split(", ").slice(1).join(", ")})`,
  },
  {
    rule: "drop the last value of in (…)",
    in: "sql",
    pattern: /\bin \(('[A-Z_]+'(?:, '[A-Z_]+')+)\)/g,
    replacement: ([, list = ""]) => `in (${list.split(", ").slice(0, -1).join(", ")})`,
  },
];

export function listMutants(file: string, text: string): Mutant[] {
  const contexts = scanSource(text);
  const mutants = RULES.flatMap((rule) => applyRule(rule, file, text, contexts));
  return [...mutants, ...dropConditions(file, text, contexts)].sort(
    (one, other) => one.start - other.start || one.rule.localeCompare(other.rule),
  );
}

export function applyMutant(text: string, { start, end, replacement }: Mutant): string {
  return text.slice(0, start) + replacement + text.slice(end);
}

function applyRule(rule: Rule, file: string, text: string, contexts: readonly Context[]): Mutant[] {
  return [...text.matchAll(rule.pattern)].flatMap((match) => {
    const start = match.index;
    const line = lineAround(text, start);
    if (contexts[start] !== rule.in || NOT_A_CONDITION.test(line)) return [];
    if ((rule.line && !rule.line.test(line)) || rule.exceptLine?.test(line)) return [];
    const replacement = typeof rule.replacement === "string" ? rule.replacement : rule.replacement(match);
    if (replacement === undefined) return [];
    return [
      {
        file,
        line: lineNumber(text, start),
        rule: rule.rule,
        start,
        end: start + match[0].length,
        replacement,
      },
    ];
  });
}

/** Each `and …` and `or …` at the start of an SQL line, with all that its brackets hold, also over several lines. */
function dropConditions(file: string, text: string, contexts: readonly Context[]): Mutant[] {
  return [...text.matchAll(/^[ \t]*(and|or) /gm)].flatMap((match) => {
    const start = match.index;
    if (contexts[start] !== "sql") return [];
    const end = endOfCondition(text, start, contexts);
    return [{ file, line: lineNumber(text, start), rule: `drop ${match[1]}`, start, end, replacement: "" }];
  });
}

/** The end of the line on which every bracket is closed; before a bracket, or the template's end, that closes something outside. */
function endOfCondition(text: string, start: number, contexts: readonly Context[]): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    const char = text[at];
    if (contexts[at] === "template" && char === "`") return at;
    if (contexts[at] !== "sql") continue;
    if (char === "(") depth += 1;
    if (char === ")") depth -= 1;
    if (depth < 0 || (depth === 0 && char === "\n")) return at;
  }
  return text.length;
}

/** The replacement when the match opens no bracket that it does not close, and reaches no end of a template. */
function balanced(matched: string, replacement: string): string | undefined {
  const opened = matched.split("(").length - matched.split(")").length;
  return opened === 0 && !matched.includes("`") && matched !== replacement ? replacement : undefined;
}

function lineAround(text: string, at: number): string {
  const start = text.lastIndexOf("\n", at - 1) + 1;
  const end = text.indexOf("\n", at);
  return text.slice(start, end === -1 ? text.length : end);
}

function lineNumber(text: string, at: number): number {
  return text.slice(0, at).split("\n").length + (text[at] === "\n" ? 1 : 0);
}
