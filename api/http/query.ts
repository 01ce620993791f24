/** Query strings: read as they were written, and the whole numbers in them. */
import { Elysia } from "elysia";
import { z } from "zod";
import { documentedAs } from "./json-schema.ts";

/**
 * A query string as it was written: a key's text, or the texts of a repeated key in order. Where a route has a schema, Elysia
 * takes a comma for a list and brackets for JSON, whatever the schema says; a search for "Invoice 5, July" is one text.
 */
export const plainQuery = new Elysia({ name: "plain-query" }).onTransform(
  { as: "global" },
  ({ request, query }) => {
    const at = request.url.indexOf("?");
    if (at >= 0) Object.assign(query, readQuery(request.url.slice(at + 1)));
  },
);

function readQuery(text: string): Record<string, string | string[]> {
  const parameters = new URLSearchParams(text);
  const read: Record<string, string | string[]> = Object.create(null);
  for (const key of parameters.keys()) {
    const values = parameters.getAll(key);
    read[key] = values.length === 1 ? (values[0] ?? "") : values;
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
