/** Query strings: parsed literally, including whole numbers. */
import { Elysia } from "elysia";
import { z } from "zod";
import { MERCHANT_QUERY } from "./act-for-merchant.ts";
import { documentedAs } from "./json-schema.ts";

/**
 * A query string as it was written: a key's text, or the texts of a repeated key in order. On a route with a schema, Elysia
 * parses a comma as a list and brackets as JSON, whatever the schema says, but a search for "Invoice 5, July" is one text.
 */
export const plainQuery = new Elysia({ name: "plain-query" }).onTransform(
  { as: "global" },
  ({ request, query }) => {
    const at = request.url.indexOf("?");
    if (at >= 0) Object.assign(query, readQuery(request.url.slice(at + 1)));
  },
);

function readQuery(text: string): Record<string, string | string[]> {
  const read: Record<string, string | string[]> = Object.create(null);
  // in one pass: `getAll` for each key would read all of them again
  for (const [key, value] of new URLSearchParams(text)) {
    const known = read[key];
    if (known === undefined) read[key] = value;
    else if (typeof known === "string") read[key] = [known, value];
    else known.push(value);
  }
  return read;
}

/** A whole number in [min, max]: text on the wire, a number in the document and inside. `fallback` when absent. */
export function queryNumber({ min, max, fallback }: { min: number; max: number; fallback: number }) {
  const schema = z
    .string()
    .regex(/^\d{1,10}$/, "must be a whole number")
    .transform(Number)
    .refine((value) => value >= min, `must be at least ${min}`)
    .refine((value) => value <= max, `must be at most ${max}`)
    .default(fallback);
  return documentedAs(schema, { type: "integer", minimum: min, maximum: max, default: fallback });
}

const NAME_SHOWN_CHARS = 40;

/**
 * Refuses unknown parameters. Otherwise a misspelt filter (`status` for `statuses`, `dateFrom[]`, `Search`) would be ignored and the response would
 * contain rows that were not requested, which makes lists and sums of money wrong.
 */
export function knownQuery<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  const names = Object.keys(shape);
  return z.looseObject(shape).superRefine((given, context) => {
    const unknown = Object.keys(given).find((name) => !names.includes(name) && name !== MERCHANT_QUERY);
    if (unknown === undefined) return;
    const [, stem = ""] = /^([a-z]*)/i.exec(unknown) ?? [];
    const message =
      stem !== unknown && names.includes(stem) ? formOf(names, stem) : `is not one of ${shown(names)}`;
    context.addIssue({ code: "custom", path: [unknown.slice(0, NAME_SHOWN_CHARS)], message });
  });
}

function formOf(names: readonly string[], name: string): string {
  const isList = names.includes(`${name}[]`);
  return `is not a form of ${name}: ${isList ? `repeat ${name}, or separate values by commas` : "use it without a suffix"}`;
}

function shown(names: readonly string[]): string {
  return names.filter((name) => !name.endsWith("[]")).join(", ");
}
