/** The OpenAPI document without a server, database or chain: it is made from the routes' schemas. */

import { buildDocument } from "../../api/http/openapi.ts";
import { type FullDocument, toClientDocument } from "../../api/http/openapi-clients.ts";
import type { OpenApiDocument } from "../../api/http/openapi-document.ts";
import { ERROR_EXAMPLE } from "../../api/http/openapi-examples.ts";
import { mountApp } from "./app-routes.ts";

export async function readDocument(): Promise<OpenApiDocument> {
  const { app, config } = await mountApp();
  return buildDocument(app, config.baseUrl) as OpenApiDocument;
}

/** What /openapi.json answers: the part that clients are generated from. */
export async function readClientDocument(env: Record<string, string> = {}): Promise<OpenApiDocument> {
  const { app, config } = await mountApp(env);
  const full = buildDocument(app, config.baseUrl) as FullDocument;
  return toClientDocument(full, ERROR_EXAMPLE) as unknown as OpenApiDocument;
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
