/**
 * The document from which clients are generated: the operations that programs call. Operations only for a signed-in person's browser (members,
 * owners, signing) are only in the full document, since a generated client cannot hold a passkey. All errors are one `default` response.
 */
import { extendSchemas, shareAnswers, shareParameters } from "./openapi-deduplicate.ts";

type Json = Record<string, unknown>;
type Reference = { $ref?: string };
type Parameter = Reference & { name?: string; required?: boolean; schema?: { maxLength?: unknown } };
type Operation = {
  operationId: string;
  tags?: string[];
  security?: Json[];
  parameters?: Parameter[];
  requestBody?: Body;
  responses?: Record<string, Reference>;
  "x-needs"?: unknown;
};
export type FullDocument = {
  tags: { name: string }[];
  paths: Record<string, Record<string, Operation>>;
  webhooks: Json;
  components: Record<string, Json>;
} & Json;

/** How a user signs up and gets a wallet: also for persons, but everything else requires it. */
const WAY_IN = /^\/v1\/(auth\/(me|status|logout)|wallets\/(setup\/\w+|recovery))$/;
/** Public, but only a browser can create the passkey it needs. */
const RECOVERY = /^\/v1\/auth\/recover/;
/** Aliases of /v1/x402, protocols that have their own libraries, and what production never serves. */
const ELSEWHERE = /^\/(x402|mcp|\.well-known\/did\.json|v1\/test)(\/|$)/;
/** Refusals of x402 differ only in their status. */
const REFUSED_PAYMENT = /\/Payment4(?!02)\d\d$/;
const PAYMENT_REFUSED = { $ref: "#/components/responses/PaymentRefused" };
/** An API key belongs to one account. */
const X_MERCHANT = "#/components/parameters/X-Merchant";
/** Unreferenced components are dropped; these are referenced by name. */
const KEPT = ["securitySchemes", "headers"];
/** A generated client tries the first scheme first. */
const ACCESS = [{ apiKey: [] }, { session: [] }];
const API_ERROR = "#/components/schemas/ApiError";
const ERROR = {
  description: "Refused or failed; branch on `error.code`",
  headers: { "Retry-After": { $ref: "#/components/headers/Retry-After" } },
};

export function toClientDocument(full: FullDocument, errorExample?: unknown): object {
  const plain = findPlainErrors(full.components.responses ?? {});
  const paths = Object.fromEntries(
    Object.entries(full.paths)
      .map(([path, item]) => [path, chooseOperations(path, item, plain)] as const)
      .filter(([, item]) => Object.keys(item).length > 0),
  );
  const names = new Set(
    Object.values(paths).flatMap((item) => Object.values(item).flatMap(({ tags = [] }) => tags)),
  );
  const operations = Object.values(paths).flatMap((item) => Object.values(item));
  const webhooks = { event: describeEvent(full.webhooks) };
  const example = errorExample === undefined ? {} : { example: errorExample };
  const content = { "application/json": { schema: { $ref: API_ERROR }, ...example } };
  const schemas = Object.entries(full.components.schemas ?? {}).map(([name, schema]) => [
    name,
    describeDefaults(schema as Schema),
  ]);
  const components = {
    ...full.components,
    schemas: extendSchemas(Object.fromEntries(schemas)),
    parameters: {
      ...Object.fromEntries(
        Object.entries(full.components.parameters ?? {}).map(([name, one]) => [
          name,
          shortenParameter(one as Parameter),
        ]),
      ),
      ...shareParameters(operations),
    },
    responses: {
      ...full.components.responses,
      ...shareAnswers(operations),
      PaymentRefused: full.components.responses?.Payment400,
      Error: { ...ERROR, content },
    },
  };
  return nameExamples({
    ...full,
    security: ACCESS,
    tags: full.tags.filter(({ name }) => names.has(name)),
    paths,
    webhooks,
    components: prune(components, [paths, webhooks]),
  });
}

/** Generators repeat an `example` line by line wherever a body or parameter is used; `examples` they leave to the document. */
function nameExamples(document: object): object {
  return JSON.parse(JSON.stringify(document), (_key, part) => {
    if (part === null || typeof part !== "object" || !("schema" in part && "example" in part)) return part;
    const { example, ...rest } = part;
    return { ...rest, examples: { recorded: { value: example } } };
  });
}

function chooseOperations(path: string, item: Record<string, Operation>, plain: ReadonlySet<string>) {
  const chosen = Object.entries(item).filter(([, { security = [] }]) => {
    const isForPersons = security.length > 0 && security.every((one) => "session" in one);
    return WAY_IN.test(path) || !(isForPersons || RECOVERY.test(path) || ELSEWHERE.test(path));
  });
  return Object.fromEntries(chosen.map(([method, operation]) => [method, shorten(operation, plain)]));
}

function shorten(
  { "x-needs": _needs, parameters, requestBody, security, responses = {}, ...rest }: Operation,
  plain: ReadonlySet<string>,
) {
  const answers = Object.entries(responses);
  const others = answers
    .filter(([, { $ref = "" }]) => !plain.has($ref))
    .map(([status, answer]) =>
      REFUSED_PAYMENT.test(answer.$ref ?? "") ? ["4XX", PAYMENT_REFUSED] : [status, answer],
    );
  const isRefused = others.length < answers.length;
  const error = isRefused ? { default: { $ref: "#/components/responses/Error" } } : {};
  // `key[]` is another spelling of `key`
  const shown = parameters
    ?.filter(({ name, $ref }) => !name?.endsWith("[]") && $ref !== X_MERCHANT)
    .map(shortenParameter);
  return {
    ...rest,
    ...describeAccess(security),
    ...(shown && shown.length > 0 && { parameters: shown }),
    ...(requestBody && { requestBody: withoutDefaults(requestBody) }),
    // a document needs one; those of x402's own schemas are described by x402
    responses:
      answers.length === 0 ? { 200: { description: "OK" } } : { ...Object.fromEntries(others), ...error },
  };
}

/** Parameters common to most operations appear once in the document. */
function describeAccess(security: Json[] = []): { security?: Json[] } {
  const takesBoth = security.length === ACCESS.length && security.some((one) => "apiKey" in one);
  return takesBoth ? {} : { security };
}

/** Parameters are optional by default; rules about their text are left to the full document. */
function shortenParameter({ required, schema, ...rest }: Parameter): Parameter {
  const { maxLength: _, ...type } = schema ?? {};
  return { ...rest, ...(schema && { schema: type }), ...(required && { required }) };
}

type Schema = {
  $ref?: string;
  description?: string;
  default?: unknown;
  pattern?: unknown;
  minLength?: unknown;
  maxLength?: unknown;
  propertyNames?: unknown;
  properties?: Record<string, Schema>;
  items?: Schema;
  anyOf?: Schema[];
};

/**
 * Generators treat a field with a default as required, so the description names the default instead. Rules about text are left to the full
 * document.
 */
function describeDefaults(schema: Schema): Schema {
  const {
    default: fallback,
    pattern: _pattern,
    minLength: _minLength,
    maxLength: _maxLength,
    propertyNames: _names,
    description,
    properties,
    items,
    anyOf,
    ...rest
  } = schema;
  const value = fallback === undefined || fallback === null ? "" : `Default: ${JSON.stringify(fallback)}`;
  const text = [description, value].filter(Boolean).join(". ");
  const inner =
    properties && Object.entries(properties).map(([name, part]) => [name, describeDefaults(part)]);
  return {
    ...rest,
    ...(text !== "" && { description: text }),
    ...(inner && { properties: Object.fromEntries(inner) }),
    ...(items && { items: describeDefaults(items) }),
    ...(anyOf && { anyOf: anyOf.map(describeDefaults) }),
  };
}

type Body = { content?: Record<string, { schema?: Schema }> };

function withoutDefaults({ content = {}, ...rest }: Body): Body {
  const parts = Object.entries(content).map(([type, { schema, ...other }]) => [
    type,
    { ...other, ...(schema && { schema: describeDefaults(schema) }) },
  ]);
  return { ...rest, content: Object.fromEntries(parts) };
}

function findPlainErrors(responses: Json): Set<string> {
  const names = Object.entries(responses).filter(([, response]) => {
    const { content } = response as { content?: Record<string, { schema?: Reference } | undefined> };
    return content?.["application/json"]?.schema?.$ref === API_ERROR;
  });
  return new Set(names.map(([name]) => `#/components/responses/${name}`));
}

/** All event types share one message schema, discriminated by `type`. */
function describeEvent(webhooks: Json) {
  const [any] = Object.values(webhooks) as { post: Json }[];
  const summary =
    "An event of your account; `type` names it, and `data` holds the link or transaction it concerns";
  return { post: { ...any?.post, operationId: "onEvent", summary } };
}

function prune(components: Record<string, Json>, roots: unknown): Record<string, Json> {
  const found = new Set<string>();
  const visit = (part: unknown): void => {
    if (part === null || typeof part !== "object") return;
    const { $ref } = part as Reference;
    if (typeof $ref === "string" && !found.has($ref)) {
      found.add($ref);
      const [, , kind = "", name = ""] = $ref.split("/");
      visit(components[kind]?.[name]);
    }
    for (const inner of Object.values(part)) visit(inner);
  };
  visit(roots);
  return Object.fromEntries(
    Object.entries(components).map(([kind, parts]) => {
      const used = Object.entries(parts).filter(([name]) => found.has(`#/components/${kind}/${name}`));
      return [kind, KEPT.includes(kind) ? parts : Object.fromEntries(used)];
    }),
  );
}
