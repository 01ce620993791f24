/**
 * A query string as it was written: a key's text, or the texts of a repeated key in order. Where a route has a schema, Elysia
 * takes a comma for a list and brackets for JSON, whatever the schema says; a search for "Invoice 5, July" is one text.
 */
import { Elysia } from "elysia";

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
