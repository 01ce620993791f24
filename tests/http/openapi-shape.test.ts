/** The OpenAPI document as a client's author reads it: names, headers, parameters and references. Real answers are replayed in openapi.test.ts. */
import { describe, expect, test } from "bun:test";
import { EVENT_TYPES } from "../../db/events/events.ts";
import { expand, type OpenApiDocument, readDocument, type Schema } from "../support/openapi-document.ts";

const served = await readDocument();
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

test("every reference leads to a component, and every component is referred to", () => {
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
  ])("%s is a list of what there is, in the list and in an export", (name, values) => {
    const list = { type: "array", items: { type: "string", enum: values }, maxItems: 100 };
    expect(parameter("/v1/transactions", name)).toEqual(list as Schema);
    const body = document.paths["/v1/transactions/export"]?.post?.requestBody?.content?.["application/json"];
    expect(body?.schema as object).toMatchObject({ properties: { [name]: list } });
  });

  test.each([
    ["post", "/v1/transactions/export"],
    ["get", "/v1/transactions/exports/{id}/download"],
  ])("%s %s answers with a file of five types", (method, path) => {
    const content = document.paths[path]?.[method]?.responses?.["200"]?.content ?? {};
    expect(Object.keys(content)).toEqual([
      ...["text/csv", "application/json", "text/plain", "application/pdf"],
      "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ]);
  });
});
