/** The OpenAPI document as a client's author reads it: names, headers, parameters and references. Real answers are replayed in openapi.test.ts. */
import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { type OpenApiDocument, resolve, type Schema } from "../../api/http/openapi-document.ts";
import { ERROR_EXAMPLE, EXAMPLES } from "../../api/http/openapi-examples.ts";
import { EVENT_TYPES } from "../../core/domain/event-types.ts";
import { expand, readClientDocument, readDocument } from "../support/openapi-document.ts";

const CLIENT_BYTES_MAX = 120_000;
const served = await readDocument();
const clients = await readClientDocument({ FACILITATOR: "1" });
const document = expand(served, served) as OpenApiDocument;

const operations = () =>
  Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  );

test("is OpenAPI 3.1 with one operation id each", () => {
  expect(document.openapi).toBe("3.1.0");
  const ids = operations().map(({ operation }) => operation.operationId);
  expect(new Set(ids).size).toBe(ids.length);
});

test("names each operation by a verb, and what it takes and answers by components", () => {
  const unnamed = operations()
    .map(({ operation }) => operation.operationId)
    .filter(
      (id) => !/^[a-z]+([A-Z][a-z]+)*[0-9A-Z]*$/.test(id) || /^(get|post|patch|delete)(V1|Api)/.test(id),
    );
  expect(unnamed).toEqual([]);
  expect(Object.keys(served.components.schemas)).toEqual(
    expect.arrayContaining(["ApiError", "Event", "LinkStatus", "PaymentLink", "Refund", "Transaction"]),
  );
  const inline = JSON.stringify(served.paths);
  expect(inline).not.toContain("$defs");
  expect(inline.match(/"VALIDATION_ERROR"/g)).toBeNull();
  const created = served.paths["/v1/payment-links"]?.post?.responses;
  expect(created?.["201"]?.content?.["application/json"]?.schema).toEqual({
    $ref: "#/components/schemas/PaymentLink",
  } as Schema);
  expect(created?.["400"]).toEqual({ $ref: "#/components/responses/BadRequest" } as object);
});

test.each([
  ["the full document", served],
  ["the document for clients", clients],
])("%s: every reference resolves to a component, and every component is referenced", (_name, served) => {
  const text = JSON.stringify(served);
  const references = new Set([...text.matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path = ""]) => path));
  const faults = [...references].filter(
    (path) =>
      !path.split("/").reduce<unknown>((node, key) => (node as Record<string, unknown>)?.[key], served),
  );
  expect(faults).toEqual([]);
  const unused = Object.keys(served.components.schemas).filter(
    (name) => !references.has(`components/schemas/${name}`),
  );
  expect(unused).toEqual([]);
});

test("each list in the general form, with data and meta, describes its paging", () => {
  const lists = operations().flatMap(({ path, method, operation }) => {
    const fields = operation.responses?.["200"]?.content?.["application/json"]?.schema?.properties ?? {};
    const isList = method === "get" && fields.data?.type === "array" && fields.meta;
    return isList
      ? [
          [
            path,
            Object.keys(fields.pagination?.properties ?? {})
              .sort()
              .join(),
          ],
        ]
      : [];
  });
  expect(lists.length).toBeGreaterThan(8);
  const expected = "hasNextPage,limit,nextCursor";
  expect(lists.filter(([, fields]) => fields !== expected)).toEqual([]);
});

describe("the document for clients", () => {
  const all = Object.values(clients.paths).flatMap((item) => Object.values(item));

  test("has at most 120 kB", () => {
    expect(Buffer.byteLength(JSON.stringify(clients))).toBeLessThanOrEqual(CLIENT_BYTES_MAX);
  });

  test("has the operations of API keys and public ones, except a few groups, and of sessions only sign-up and sign-in", () => {
    const ids = new Set(all.map(({ operationId }) => operationId));
    const programs = operations().filter(
      ({ path, operation: { security = [] } }) =>
        !/^\/(v1\/auth\/recover|v1\/test|x402\/|mcp$|\.well-known\/did\.json$)/.test(path) &&
        (security.length === 0 || security.some((one) => "apiKey" in one)),
    );
    expect(programs.map(({ operation }) => operation.operationId).filter((id) => !ids.has(id))).toEqual([]);
    const sessions = all.filter(
      ({ security = [] }) => security.length > 0 && !security.some((one) => "apiKey" in one),
    );
    expect(sessions.map(({ operationId }) => operationId).sort()).toEqual([
      ...["beginWalletSetup", "finishWalletSetup", "getCurrentUser", "getSetupStatus", "getWalletFile"],
      ...["signOut", "updateCurrentUser"],
    ]);
  });

  test("describes refusals by one envelope, and one webhook with every type", () => {
    const silent = all.filter(({ responses = {} }) => Object.keys(responses).length === 0);
    expect(silent).toEqual([]);
    const refused = all.filter(({ responses = {} }) => "default" in responses);
    expect(refused.length).toBeGreaterThan(50);
    expect(refused.filter(({ responses = {} }) => "500" in responses && !responses["402"])).toEqual([]);
    expect(clients.components.schemas.EventType?.enum).toEqual([...EVENT_TYPES]);
    expect(Object.keys(clients.webhooks ?? {})).toEqual(["event"]);
    expect(JSON.stringify(clients)).not.toContain("x-needs");
  });

  test("defines the API key and the session once; public operations are marked as such", () => {
    const { security } = clients as OpenApiDocument & { security?: object[] };
    expect(security).toEqual([{ apiKey: [] }, { session: [] }]);
    for (const { operationId, security: own = security } of all) {
      const full = operations().find(({ operation }) => operation.operationId === operationId)?.operation;
      if (!full) continue;
      const schemes = (given: object[] = []) => given.flatMap((one) => Object.keys(one)).toSorted();
      expect([operationId, schemes(own)]).toEqual([operationId, schemes(full.security)]);
    }
  });

  test("defines shared parameters once, as components, and each operation still takes them", () => {
    const full = new Map(operations().map(({ operation }) => [operation.operationId, operation]));
    const takenBy = ({ parameters = [] }: (typeof all)[number]) =>
      parameters.map((one) => resolve(clients, one).name).toSorted();
    // the facilitator's are not in the full document that this file reads
    const both = all.filter(({ operationId }) => full.has(operationId));
    expect(both.length).toBeGreaterThan(70);
    for (const operation of both) {
      const { parameters = [] } = full.get(operation.operationId) ?? {};
      const names = parameters.map(({ name }) => name).filter((name) => !/\[\]$|^X-Merchant$/.test(name));
      expect([operation.operationId, takenBy(operation)]).toEqual([operation.operationId, names.toSorted()]);
    }
    const inline = all.flatMap(({ parameters = [] }) => parameters.filter(({ $ref }) => !$ref));
    const texts = inline.map((one) => JSON.stringify(one)).filter((text) => text.length >= 120);
    expect(texts.filter((text, index) => texts.indexOf(text) !== index)).toEqual([]);
  });

  test("describes a default in a body in words, since generators treat a field with a default as required", () => {
    const bodies = JSON.stringify([clients.components.schemas, all.map(({ requestBody }) => requestBody)]);
    expect(bodies).not.toMatch(/"default":(?!\{)/);
    const hours = clients.components.schemas.CreatePaymentLink?.properties?.expiresInHours;
    expect(hours).toMatchObject({ type: "integer", description: "Default: 24" });
    const { parameters = [] } = clients.paths["/v1/payment-links"]?.get ?? {};
    const limit = parameters.map((one) => resolve(clients, one)).find(({ name }) => name === "limit");
    expect(limit?.schema?.default).toBe(20);
  });

  test("shows recorded examples, and each fits its schema exactly", () => {
    const document = expand(clients, clients) as OpenApiDocument;
    const shown = Object.values(document.paths).flatMap((item) =>
      Object.values(item).flatMap(({ operationId, requestBody, responses = {} }) =>
        [requestBody, ...Object.values(responses)].flatMap((part) => {
          const { schema = {}, example, examples = {} } = part?.content?.["application/json"] ?? {};
          // generators would repeat one line by line
          expect(example).toBeUndefined();
          const values = Object.values(examples) as { value: unknown }[];
          return values.map(({ value }) => ({ operationId, schema, example: value }));
        }),
      ),
    );
    const faults = shown
      .map(({ operationId, schema, example }) => ({ operationId, ...parse(schema, example) }))
      .filter(({ error }) => error);
    expect(faults).toEqual([]);
    const recorded = Object.values(EXAMPLES).flatMap(({ body, answer }) => [body, answer]);
    const known = recorded.filter((one) => one !== undefined).map((one) => JSON.stringify(one));
    expect(known.length).toBeGreaterThan(6);
    const texts = new Set(shown.map(({ example }) => JSON.stringify(example)));
    expect(known.filter((text) => !texts.has(text))).toEqual([]);
    expect(texts).toContain(JSON.stringify(ERROR_EXAMPLE));
  });

  function parse(schema: Schema, example: unknown) {
    const parsed = z.fromJSONSchema(closed(joined(schema))).safeParse(example);
    return { error: parsed.success ? undefined : z.prettifyError(parsed.error) };
  }

  /** An object that extends another one, as one. */
  function joined(schema: Schema): Schema {
    return JSON.parse(JSON.stringify(schema), (_key, value) => {
      if (!Array.isArray(value?.allOf)) return value;
      const parts = value.allOf as Schema[];
      const properties = Object.assign({}, ...parts.map((part) => part.properties));
      return { type: "object", properties, required: parts.flatMap((part) => part.required ?? []) };
    });
  }

  /** An object has no further fields, unless it is open on purpose. */
  function closed(schema: Schema): Parameters<typeof z.fromJSONSchema>[0] {
    return JSON.parse(JSON.stringify(schema), (_key, value) =>
      value?.type === "object" && value.properties && value.additionalProperties === undefined
        ? { ...value, additionalProperties: false }
        : value,
    );
  }
});

test("describes the message of each event type as a webhook", () => {
  expect(Object.keys(document.webhooks ?? {})).toEqual([...EVENT_TYPES]);
  const paid = document.webhooks?.["payment_link.paid"]?.post;
  expect(paid?.operationId).toBe("onPaymentLinkPaid");
  expect(paid?.parameters?.map(({ name }) => name)).toEqual([
    ...["webhook-id", "webhook-timestamp", "webhook-signature"],
  ]);
  const data = paid?.requestBody?.content?.["application/json"]?.schema?.properties?.data;
  expect(data?.properties?.link).toEqual(document.components.schemas.PaymentLinkDetail as Schema);
});

test.each([
  ["post", "/v1/payment-links", "Idempotency-Key"],
  ["post", "/v1/wallets/send/prepare", "Idempotency-Key"],
  ["post", "/v1/payment-links/{id}/refund-requests", "Idempotency-Key"],
  ["post", "/v1/transactions/export", "Prefer"],
  ["get", "/v1/events/stream", "Last-Event-ID"],
  ["get", "/v1/events/stream", "X-Merchant"],
  ["post", "/v1/payment-links", "X-Merchant"],
  ["get", "/v1/x402/{linkId}", "X-PAYMENT"],
  ["get", "/v1/x402/{linkId}", "PAYMENT-SIGNATURE"],
])("%s %s declares the header %s", (method, path, name) => {
  const parameters = document.paths[path]?.[method]?.parameters ?? [];
  expect(parameters.filter((one) => one.in === "header").map((one) => one.name)).toContain(name);
});

test.each([
  "POST /v1/identity/register",
  "POST /v1/email-verification/verify",
  "POST /v1/email-verification/resend",
  "POST /v1/auth/options",
  "POST /v1/auth/verify",
  "GET /v1/auth/google/authorize",
  "GET /v1/auth/google/callback",
  "GET /v1/auth/me",
  "GET /v1/auth/status",
  "POST /v1/auth/logout",
  "POST /v1/wallets/setup/start",
  "POST /v1/wallets/setup/complete",
  "GET /v1/wallets/balance",
  "GET /v1/wallets/recovery",
  "POST /v1/payment-links",
  "GET /v1/payment-links",
  "GET /v1/payment-links/{id}",
  "GET /v1/payment-links/stats",
  "GET /api/v1/public/payment-links/{linkId}/data",
  "POST /api/v1/public/payment-links/{linkId}/complete",
  "GET /v1/x402/{linkId}",
  "POST /v1/x402/{linkId}/pay",
  "GET /x402/{linkId}",
  "POST /x402/{linkId}/pay",
  "GET /v1/networks",
  "GET /v1/networks/currencies",
  "GET /v1/transactions",
  "GET /v1/transactions/summary",
  "POST /v1/transactions/export",
  "GET /health",
  "GET /health/ready",
  "GET /health/live",
])("has the documented %s", (route) => {
  const [method = "", path = ""] = route.split(" ");
  expect(document.paths[path]?.[method.toLowerCase()]).toBeDefined();
  // /x402 is another spelling of /v1/x402, which clients are generated with
  expect(clients.paths[path.replace(/^\/x402/, "/v1/x402")]?.[method.toLowerCase()]).toBeDefined();
});

describe("what a client's author reads", () => {
  const parameter = (path: string, name: string) =>
    document.paths[path]?.get?.parameters?.find((one) => one.name === name)?.schema;

  test.each([
    ["/v1/transactions", 50],
    ["/v1/payment-links", 20],
    ["/v1/events", 50],
    ["/v1/security-events", 20],
  ])("limit of %s is a whole number", (path, fallback) => {
    expect(parameter(path, "limit")).toEqual({
      ...{ type: "integer", minimum: 1, maximum: 100 },
      default: fallback,
    });
  });

  test("offset and amounts are numbers", () => {
    expect(parameter("/v1/transactions", "offset")).toMatchObject({
      ...{ type: "integer", minimum: 0 },
      default: 0,
    });
    for (const name of ["amountMin", "amountMax"])
      expect(parameter("/v1/transactions", name)).toMatchObject({ type: "number", minimum: 0 });
  });

  test.each([
    ["types", ["SEND", "RECEIVE", "PAYMENT_LINK"]],
    ["statuses", ["PENDING", "DETECTED", "CONFIRMED", "FAILED", "ORPHANED"]],
    ["networks", ["base", "base-sepolia"]],
    ["currencies", ["USDC"]],
  ])("%s is a list of known values, in the list and in an export", (name, values) => {
    const list = { type: "array", items: { type: "string", enum: values }, maxItems: 100 };
    expect(parameter("/v1/transactions", name)).toEqual(list as Schema);
    const body = document.paths["/v1/transactions/export"]?.post?.requestBody?.content?.["application/json"];
    expect(body?.schema as object).toMatchObject({ properties: { [name]: list } });
  });

  test.each([
    ["post", "/v1/transactions/export"],
    ["get", "/v1/transactions/exports/{id}/download"],
  ])("%s %s answers with a file of seven types", (method, path) => {
    const content = document.paths[path]?.[method]?.responses?.["200"]?.content ?? {};
    expect(Object.keys(content)).toEqual([
      ...["text/csv", "application/json", "text/plain", "application/pdf"],
      ...[
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/xml",
        "application/zip",
      ],
    ]);
  });
});
