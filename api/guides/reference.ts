/** The reference: the OpenAPI document as markdown, one page per tag, so that it can be read, searched and downloaded like a guide. */
import {
  type Answer,
  type OpenApiDocument,
  type Operation,
  type Parameter,
  resolve,
  type Schema,
} from "../http/openapi-document.ts";
import type { Guide } from "./guides.ts";
import { row, table } from "./markdown-table.ts";

const SCHEMAS = "#/components/schemas/";
const VALUES_SHOWN = 8;

export function renderReference(document: OpenApiDocument): Guide[] {
  const operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
  const pages = document.tags.map(({ name }) => {
    const own = operations.filter(({ operation }) => operation.tags?.includes(name));
    const parts = own.map((one) => describeOperation(document, one));
    const names = findSchemas(document, parts.join("\n"));
    const objects = names.map((schema) => describeSchema(document, schema));
    const lists = own.map(
      ({ method, path, operation }) =>
        `- [\`${method} ${path}\`](#${anchorOf(operation)}): ${operation.summary ?? ""}`,
    );
    const text = [
      `# ${capitalize(name)}`,
      `${own.length === 1 ? "One operation" : `${own.length} operations`} of the API, with what each takes and answers.`,
      lists.join("\n"),
      ...parts,
      ...(objects.length > 0 ? ["## Objects", ...objects] : []),
    ];
    return { slug: `reference/${slugOf(name)}`, markdown: `${text.join("\n\n")}\n` };
  });
  const index = document.tags.map(({ name }) => {
    const own = operations.filter(({ operation }) => operation.tags?.includes(name));
    const lines = own.map(
      ({ method, path, operation }) =>
        `- [\`${method} ${path}\`](reference/${slugOf(name)}#${anchorOf(operation)}): ${operation.summary ?? ""}`,
    );
    return `## ${capitalize(name)}\n\n${lines.join("\n")}`;
  });
  const start = `# API reference\n\nEvery operation, from the schemas that validate it. Generate a client from the [OpenAPI document](/openapi.json); [all operations](/openapi-full.json), with those that only the dashboard calls, are in a document of their own.\n\n${document.info.description ?? ""}`;
  return [{ slug: "reference", markdown: `${[start, ...index].join("\n\n")}\n` }, ...pages];
}

const capitalize = (text: string) => (text === "x402" ? text : text.charAt(0).toUpperCase() + text.slice(1));
const slugOf = (tag: string) => tag.toLowerCase().replaceAll(" ", "-");
const anchorOf = ({ operationId }: Operation) => operationId.toLowerCase();

function describeOperation(
  document: OpenApiDocument,
  { path, method, operation }: { path: string; method: string; operation: Operation },
): string {
  const { operationId, summary = "", description, security = [], parameters = [], requestBody } = operation;
  const kinds = security.flatMap((one) => Object.keys(one));
  const needs = kinds.map((kind) => (kind === "apiKey" ? "an API key" : "a session")).join(" or ");
  const body = requestBody?.content?.["application/json"]?.schema;
  const example = requestBody?.content?.["application/json"]?.example;
  return [
    `## ${operationId}`,
    `\`${method} ${path}\``,
    [sentence(summary), description].filter(Boolean).join(" "),
    kinds.length > 0 ? `Takes ${needs}.` : "Public.",
    parameters.length > 0 && describeParameters(document, parameters),
    body && `**Body${requestBody?.required === false ? ", optional" : ""}**: ${nameOf(body)}`,
    body && fieldsOf(body),
    example !== undefined && json(example),
    "**Answers**",
    describeAnswers(document, operation),
  ]
    .filter((part) => typeof part === "string" && part !== "")
    .join("\n\n");
}

const sentence = (text: string) => (text === "" || /[.?!]$/.test(text) ? text : `${text}.`);
const json = (value: unknown) => `\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\``;

function describeParameters(document: OpenApiDocument, parameters: Parameter[]): string {
  const rows = parameters.map((given) => {
    const { name, in: place, required, description, schema = {} } = resolve(document, given);
    const text = description ?? schema.description ?? "";
    return row(
      `\`${name}\`${required ? ", required" : ""}`,
      place,
      typeOf(schema),
      withDefault(text, schema),
    );
  });
  return table(["parameter", "in", "type", "meaning"], rows);
}

function describeAnswers(document: OpenApiDocument, { responses = {} }: Operation): string {
  const all = Object.entries(responses).map(([status, given]) => ({ status, ...resolve(document, given) }));
  const isPlainError = ({ content }: Answer) =>
    content?.["application/json"]?.schema?.$ref === `${SCHEMAS}ApiError`;
  const errors = all.filter(isPlainError).map(({ status }) => status);
  const rows = all
    .filter((answer) => !isPlainError(answer))
    .map(({ status, description = "", content = {} }) => {
      const bodies = Object.entries(content).map(([type, { schema }]) =>
        type === "application/json" && schema ? nameOf(schema) : `\`${type}\``,
      );
      return row(status, description === "OK" ? "" : description, [...new Set(bodies)].join(", "));
    });
  const refusals = `[Errors](/docs/errors): ${errors.join(", ")}.`;
  const examples = all.flatMap(({ status, content }) => {
    const { example } = content?.["application/json"] ?? {};
    return example === undefined ? [] : [`**Example of ${status}**`, json(example)];
  });
  return [table(["status", "meaning", "body"], rows), errors.length > 0 && refusals, ...examples]
    .filter(Boolean)
    .join("\n\n");
}

function describeSchema(document: OpenApiDocument, name: string): string {
  const schema = document.components.schemas[name] ?? {};
  const values = schema.enum;
  const text = values ? values.map((value) => `\`${String(value)}\``).join(", ") : fieldsOf(schema);
  return [`### ${name}`, schema.description && sentence(schema.description), text || typeOf(schema)]
    .filter(Boolean)
    .join("\n\n");
}

/** The fields of an object, inner ones with a dotted name. */
function fieldsOf(schema: Schema): string {
  if (schema.$ref) return "";
  const rows = rowsOf(schema, "");
  return rows.length === 0 ? "" : table(["field", "type", "meaning"], rows);
}

function rowsOf({ properties = {}, required = [] }: Schema, prefix: string): string[] {
  return Object.entries(properties).flatMap(([name, schema]) => {
    const isOptional = !required.includes(name);
    const own = row(
      `\`${prefix}${name}\`${isOptional ? ", optional" : ""}`,
      typeOf(schema),
      withDefault(schema.description ?? "", schema),
    );
    const inner = schema.properties ? schema : schema.items?.properties ? schema.items : undefined;
    return inner ? [own, ...rowsOf(inner, `${prefix}${name}${schema.items ? "[]" : ""}.`)] : [own];
  });
}

function withDefault(text: string, { default: fallback }: Schema): string {
  if (fallback === undefined || fallback === null) return text;
  return `${text}${text === "" ? "" : ". "}Default \`${JSON.stringify(fallback)}\``;
}

function typeOf(schema: Schema): string {
  const { $ref, type, enum: values, const: value, items, format } = schema;
  if ($ref) return `[${$ref.slice(SCHEMAS.length)}](#${$ref.slice(SCHEMAS.length).toLowerCase()})`;
  if (value !== undefined) return `\`${JSON.stringify(value)}\``;
  if (values) {
    const shown = values.slice(0, VALUES_SHOWN).map((one) => `\`${String(one)}\``);
    return `${shown.join(", ")}${values.length > VALUES_SHOWN ? ", …" : ""}`;
  }
  const union = schema.anyOf ?? schema.oneOf;
  if (union) return [...new Set(union.map(typeOf))].join(" or ");
  if (type === "array") return `list of ${typeOf(items ?? {})}`;
  if (Array.isArray(type)) return type.map((one) => (one === "string" && format ? format : one)).join(" or ");
  return format ?? type ?? "any";
}

function nameOf(schema: Schema): string {
  return schema.$ref || schema.type === "array" ? typeOf(schema) : "an object";
}

/** The named schemas that the text links to, directly or indirectly, except the error envelope, which the guide explains. */
function findSchemas(document: OpenApiDocument, text: string): string[] {
  const found = new Set<string>();
  const visit = (part: string) => {
    for (const [, name = ""] of part.matchAll(/\[(\w+)\]\(#\w+\)/g)) {
      if (found.has(name) || !document.components.schemas[name]) continue;
      found.add(name);
      visit(describeSchema(document, name));
    }
  };
  visit(text);
  return [...found].sort();
}
