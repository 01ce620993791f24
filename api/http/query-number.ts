/** Whole numbers of a query string: text on the wire, numbers in the document and inside. */
import { z } from "zod";
import { documentedAs } from "./json-schema.ts";

/** In [min, max]; `fallback` when absent. */
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
