/** The OpenAPI document without a server, database or chain: it is made from the routes' schemas. */
import { buildDocument } from "../../api/http/openapi.ts";
import { mountApp } from "./app-routes.ts";

export type Schema = {
  $ref?: string;
  type?: string | string[];
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
export type Content = { $ref?: string; content?: Record<string, { schema?: Schema; example?: unknown }> };
export type Parameter = {
  $ref?: string;
  name?: string;
  in?: string;
  required?: boolean;
  schema?: Schema;
};
export type Operation = {
  operationId: string;
  summary?: string;
  description?: string;
  security?: Record<string, unknown>[];
  requestBody?: Content & { required?: boolean };
  parameters?: Parameter[];
  responses?: Record<string, Content>;
};
export type OpenApiDocument = {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  webhooks?: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> } & Record<string, Record<string, unknown>>;
};

export async function readDocument(): Promise<OpenApiDocument> {
  const { app, config } = await mountApp();
  return buildDocument(app, config.baseUrl) as OpenApiDocument;
}

/** With what references stand for in their place; the words beside a reference are kept: they describe the field, not the component. */
export function expand(part: unknown, whole: object): unknown {
  if (Array.isArray(part)) return part.map((one) => expand(one, whole));
  if (part === null || typeof part !== "object") return part;
  const { $ref, ...beside } = part as { $ref?: unknown };
  if (typeof $ref !== "string")
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, expand(value, whole)]));
  const target = $ref
    .replace("#/", "")
    .split("/")
    .reduce<unknown>((node, key) => (node as Record<string, unknown>)[key], whole);
  return { ...(expand(target, whole) as object), ...beside };
}

/** What a reference of the document stands for, or the part itself. */
export function resolve<Part extends { $ref?: string }>(document: OpenApiDocument, part: Part): Part {
  if (!part.$ref) return part;
  const found = part.$ref
    .replace("#/", "")
    .split("/")
    .reduce<unknown>((node, key) => (node as Record<string, unknown>)?.[key], document);
  if (!found) throw new Error(`the document has no ${part.$ref}`);
  return found as Part;
}
