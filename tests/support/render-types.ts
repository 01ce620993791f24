/** TypeScript types of an OpenAPI document's schemas. A reference is its name; the named ones are written with `renderComponents`. */
import type { Schema } from "../../api/http/openapi-document.ts";

const REFERENCE = "#/components/schemas/";

export function renderComponents(schemas: Record<string, Schema>, names: Iterable<string>): string {
  return [...names]
    .sort()
    .map(
      (name) => `${comment(schemas[name]?.description)}export type ${name} = ${typeOf(schemas[name] ?? {})};`,
    )
    .join("\n");
}

const comment = (text: string | undefined) => (text ? `/** ${text.replaceAll("*/", "* /")} */\n` : "");

/** The components that these schemas refer to, directly or through another. */
export function findNames(schemas: Record<string, Schema>, roots: unknown): Set<string> {
  const found = new Set<string>();
  const visit = (part: unknown): void => {
    if (part === null || typeof part !== "object") return;
    const { $ref } = part as Schema;
    const name = typeof $ref === "string" && $ref.startsWith(REFERENCE) ? $ref.slice(REFERENCE.length) : "";
    if (name && !found.has(name)) {
      found.add(name);
      visit(schemas[name]);
    }
    for (const inner of Object.values(part)) visit(inner);
  };
  visit(roots);
  return found;
}

export function typeOf(schema: Schema): string {
  if (schema.$ref) return schema.$ref.slice(REFERENCE.length);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const union = schema.anyOf ?? schema.oneOf;
  if (union) return [...new Set(union.map(typeOf))].join(" | ");
  if (schema.allOf) return schema.allOf.map((part) => `(${typeOf(part)})`).join(" & ");
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type })).join(" | ");
  switch (schema.type) {
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case "number":
    case "integer":
      return "number";
    case "array":
      return `(${typeOf(schema.items ?? {})})[]`;
    case "object":
      return typeOfObject(schema);
    default:
      return "unknown";
  }
}

function typeOfObject({ properties = {}, required = [], additionalProperties }: Schema): string {
  const fields = Object.entries(properties).map(
    ([name, schema]) =>
      `${/^\w+$/.test(name) ? name : JSON.stringify(name)}${required.includes(name) ? "" : "?"}: ${typeOf(schema)}`,
  );
  const rest = typeof additionalProperties === "object" ? typeOf(additionalProperties) : undefined;
  if (fields.length === 0) return `Record<string, ${rest ?? "unknown"}>`;
  return `{ ${fields.join("; ")} }`;
}
