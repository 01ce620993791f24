/** Types of our OpenAPI document, for the reference under /docs and for tests. */

export type Schema = {
  $ref?: string;
  type?: string | string[];
  format?: string;
  minimum?: number;
  maximum?: number;
  maxItems?: number;
  default?: unknown;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  description?: string;
};
export type Content = Record<
  string,
  { schema?: Schema; example?: unknown; examples?: Record<string, unknown> }
>;
export type Parameter = {
  $ref?: string;
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: Schema;
};
export type Answer = { $ref?: string; description?: string; content?: Content };
export type Operation = {
  operationId: string;
  summary?: string;
  description?: string;
  tags?: string[];
  security?: Record<string, unknown>[];
  parameters?: Parameter[];
  requestBody?: { $ref?: string; content?: Content; required?: boolean };
  responses?: Record<string, Answer>;
};
export type OpenApiDocument = {
  openapi: string;
  info: { description?: string; version: string };
  tags: { name: string }[];
  paths: Record<string, Record<string, Operation>>;
  webhooks?: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> } & Record<string, Record<string, unknown>>;
};

/** Resolves a reference; returns anything else as it is. */
export function resolve<Part extends { $ref?: string }>(document: OpenApiDocument, part: Part): Part {
  if (!part.$ref) return part;
  const found = part.$ref
    .replace("#/", "")
    .split("/")
    .reduce<unknown>((node, key) => (node as Record<string, unknown>)?.[key], document);
  if (!found) throw new Error(`the document has no ${part.$ref}`);
  return found as Part;
}
