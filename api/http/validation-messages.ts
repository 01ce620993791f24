/** What a schema has against a value, said to the one who sent it: "must be …" or "is …", to be read after the field's name. */
import { z } from "zod";

type Issue = Parameters<z.core.$ZodErrorMap>[0];

const TYPES: Record<string, string> = {
  string: "must be text",
  number: "must be a number",
  int: "must be a whole number",
  boolean: "must be true or false",
  array: "must be a list",
  object: "must be an object",
  record: "must be an object",
};
const UNITS: Record<string, { one: string; many: string }> = {
  string: { one: "character", many: "characters" },
  array: { one: "entry", many: "entries" },
};

/** For every schema of this process that has no words of its own. */
export function speakPlainly(): void {
  z.config({ customError: describeIssue });
}

function describeIssue(issue: Issue): string | undefined {
  if (issue.input === undefined && issue.code !== "unrecognized_keys") return "is missing";
  switch (issue.code) {
    case "invalid_type":
      return describeType(issue.expected, issue.input);
    case "invalid_value":
      return `must be ${oneOf(issue.values.map(String))}`;
    case "too_small":
      return describeBound("at least", issue.minimum, issue.origin);
    case "too_big":
      return describeBound("at most", issue.maximum, issue.origin);
    case "invalid_format":
    case "invalid_union":
      return "is not well formed";
    case "unrecognized_keys":
      return `has fields that are not known here: ${issue.keys.join(", ")}`;
    default:
      return undefined;
  }
}

function describeType(expected: string, input: unknown): string {
  // a repeated key of a query
  if (expected === "string" && Array.isArray(input)) return "must be given once";
  return TYPES[expected] ?? "is not well formed";
}

function describeBound(side: string, bound: number | bigint, origin: string): string {
  const unit = UNITS[origin];
  if (!unit) return `must be ${side} ${bound}`;
  return `must have ${side} ${bound} ${Number(bound) === 1 ? unit.one : unit.many}`;
}

/** "A", "A or B", "A, B or C" */
export function oneOf(values: readonly string[]): string {
  return values.length < 2 ? values.join("") : `${values.slice(0, -1).join(", ")} or ${values.at(-1)}`;
}
