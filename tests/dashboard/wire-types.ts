/** The types of the requests and answers that the dashboard uses, written from the OpenAPI document, so that the compiler compares both sides. */
import { createApp } from "../../api/app.ts";
import { readApiConfig } from "../../api/config.ts";
import type { ApiDeps } from "../../api/http/deps.ts";
import { buildDocument } from "../../api/http/openapi.ts";
import { openLog } from "../../core/runtime/log.ts";
import { openMetrics } from "../../core/runtime/metrics.ts";

export const WIRE_TYPES = "web/dashboard/wire.ts";

const OPERATIONS = [
  "POST /v1/identity/register",
  "POST /v1/email-verification/verify",
  "POST /v1/email-verification/resend",
  "POST /v1/auth/options",
  "POST /v1/auth/verify",
  "GET /v1/auth/me",
  "PATCH /v1/auth/me",
  "POST /v1/auth/logout",
  "GET /v1/auth/sessions",
  "DELETE /v1/auth/sessions/{id}",
  "POST /v1/auth/sessions/revoke-others",
  "GET /v1/auth/passkeys",
  "PATCH /v1/auth/passkeys/{id}",
  "POST /v1/wallets/setup/start",
  "POST /v1/wallets/setup/complete",
  "GET /v1/wallets/balance",
  "GET /v1/wallets/owners",
  "POST /v1/wallets/send/prepare",
  "POST /v1/wallets/send/confirm",
  "GET /v1/wallets/sends",
  "GET /v1/wallets/sends/{id}",
  "POST /v1/wallets/sends/{id}/cancel",
  "POST /v1/payment-links",
  "GET /v1/payment-links",
  "GET /v1/payment-links/stats",
  "GET /v1/payment-links/{id}",
  "GET /v1/payment-links/{id}/payments",
  "POST /v1/payment-links/{id}/cancel",
  "POST /v1/payment-links/{id}/refunds",
  "GET /v1/payment-links/{id}/refunds",
  "GET /v1/refunds/{id}",
  "POST /v1/refunds/{id}/confirm",
  "POST /v1/refunds/{id}/cancel",
  "POST /v1/refunds/{id}/prepare",
  "GET /api/v1/public/payment-links/{linkId}/data",
  "GET /v1/transactions",
  "POST /v1/transactions/{id}/assign",
  "GET /v1/transactions/exports",
  "POST /v1/transactions/export",
  "GET /v1/api-keys",
  "POST /v1/api-keys",
  "DELETE /v1/api-keys/{id}",
  "GET /v1/webhook-endpoints",
  "POST /v1/webhook-endpoints",
  "PATCH /v1/webhook-endpoints/{id}",
  "DELETE /v1/webhook-endpoints/{id}",
  "POST /v1/webhook-endpoints/{id}/rotate-secret",
  "GET /v1/webhook-endpoints/{id}/deliveries",
  "GET /v1/webhook-deliveries/{id}",
  "POST /v1/webhook-deliveries/{id}/redeliver",
  "GET /v1/security-events",
  "GET /v1/settings",
  "PATCH /v1/settings",
  "GET /v1/settings/pages",
  "PATCH /v1/settings/pages",
  "POST /v1/settings/pages/logo",
  "DELETE /v1/settings/pages/logo",
  "POST /v1/test/outbox",
] as const;

type Schema = {
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
};
type Content = { content?: Record<string, { schema?: Schema }> };
type Operation = {
  requestBody?: Content;
  parameters?: { name: string; in: string; required?: boolean; schema?: Schema }[];
  responses?: Record<string, Content>;
};

/** The file's text. No server, database or chain is needed: the document is made from the routes' schemas. */
export async function renderWireTypes(): Promise<string> {
  const paths = await readPaths();
  const lines = OPERATIONS.map((name) => {
    const [method = "", path = ""] = name.split(" ");
    const operation = paths[path]?.[method.toLowerCase()];
    if (!operation) throw new Error(`the document has no ${name}`);
    return `  ${JSON.stringify(name)}: { query: ${typeOfQuery(operation)}; body: ${typeOfBody(operation)}; answer: ${typeOfAnswer(operation)} };`;
  });
  return `/** Written by \`bun run wire-types\` from the OpenAPI document; a test compares both. */\nexport type Wire = {\n${lines.join("\n")}\n};\n`;
}

export async function readPaths(): Promise<Record<string, Record<string, Operation>>> {
  const config = readApiConfig({
    NODE_ENV: "test",
    TEST_MODE: "1",
    DATABASE_URL: "postgres://localhost/none",
    JWT_SECRET: "4f3c2b1a09f8e7d6c5b4a3928170615243342516078899aabbccddeeff001122",
    OTP_PEPPER: "99aa88bb77cc66dd55ee44ff33002211fedcba98765432100123456789abcdef",
    RPC_URL_BASE_SEPOLIA: "http://127.0.0.1:1",
    NETWORKS: "base-sepolia",
  });
  const metrics = openMetrics("api", config.metrics);
  // routes use these only when they are called
  const assets = { pathOf: (name: string) => `/assets/${name}` };
  const deps = { config, metrics, assets, log: openLog("wire-types", "fatal"), chains: new Map() };
  const document = buildDocument(createApp(deps as unknown as ApiDeps), config.baseUrl);
  await metrics.close();
  return (document as { paths: Record<string, Record<string, Operation>> }).paths;
}

const jsonOf = (part: Content | undefined) => part?.content?.["application/json"]?.schema;

function typeOfQuery({ parameters = [] }: Operation): string {
  const found = parameters.filter((parameter) => parameter.in === "query");
  if (found.length === 0) return "undefined";
  const fields = found.map(({ name, schema = {} }) => `${JSON.stringify(name)}?: ${typeOf(schema)}`);
  return `{ ${fields.join("; ")} }`;
}

function typeOfBody({ requestBody }: Operation): string {
  const schema = jsonOf(requestBody);
  return schema ? typeOf(schema) : "undefined";
}

function typeOfAnswer({ responses = {} }: Operation): string {
  const types = Object.entries(responses)
    .filter(([status]) => status.startsWith("2"))
    .map(([, content]) => jsonOf(content))
    .map((schema) => (schema ? typeOf(schema) : "unknown"));
  return [...new Set(types)].join(" | ") || "unknown";
}

function typeOf(schema: Schema): string {
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
