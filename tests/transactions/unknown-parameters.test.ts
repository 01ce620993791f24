/** A filter that is not known: ignored, it would give every row, and sums of all of them. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

let world: ApiWorld;
let ann: Merchant;
beforeAll(async () => {
  world = await startApiWorld();
  ann = await signUp(world.baseUrl);
}, 120_000);
afterAll(() => world?.stop());

const LISTS = [
  "/v1/transactions",
  "/v1/transactions/summary",
  "/v1/payment-links",
  "/v1/payment-links/stats",
];

/** Names that the list does not have, and the one in another form. */
const UNKNOWN: Record<string, string[]> = {
  "/v1/transactions": [
    "status",
    "type",
    "network",
    "currency",
    "Types",
    "datefrom",
    "date_from",
    "from",
    "q",
    "page",
  ],
  "/v1/transactions/summary": [
    "status",
    "type",
    "limit",
    "offset",
    "cursor",
    "amount",
    "minAmount",
    "SEARCH",
  ],
  "/v1/payment-links": ["statuses", "Status", "state", "offset", "search", "ref", "customer_email"],
  "/v1/payment-links/stats": ["status", "day", "timezone", "tz", "limit"],
};

describe.each(LISTS)("%s", (path) => {
  test("refuses a parameter that does not exist, and names it", async () => {
    for (const name of ["constructor", "toString", "%00", ...(UNKNOWN[path] ?? [])]) {
      const { status, body } = await ann.client.get(`${path}?${name}=1`);
      expect({ name, status }).toEqual({ name, status: 400 });
      expect(body.error).toMatchObject({
        code: "VALIDATION_ERROR",
        details: { field: name === "%00" ? "\0" : name, issue: expect.stringMatching(/^is not one of \w+/) },
      });
    }
  });

  test("accepts only the caller's own userId", async () => {
    expect((await ann.client.get(`${path}?userId=${ann.userId}`)).status).toBe(200);
    const { status, body } = await ann.client.get(`${path}?userId=${ann.userId.replace(/.$/, "x")}`);
    expect(status).toBe(403);
    expect(body.error.details.field).toBe("userId");
  });

  test("accepts the merchant that the caller acts for", async () => {
    expect((await ann.client.get(`${path}?merchant=${ann.userId}`)).status).toBe(200);
  });
});

test.each([
  ["/v1/transactions", "dateFrom[]", "is not a form of dateFrom: use it without a suffix"],
  ["/v1/transactions", "amountMin[0]", "is not a form of amountMin: use it without a suffix"],
  ["/v1/transactions/summary", "search[]", "is not a form of search: use it without a suffix"],
  [
    "/v1/transactions/summary",
    "types.0",
    "is not a form of types: repeat types, or separate values by commas",
  ],
  ["/v1/payment-links", "status[]", "is not a form of status: use it without a suffix"],
])("%s refuses %s, and explains how it is written", async (path, name, issue) => {
  const { status, body } = await ann.client.get(`${path}?${name}=1`);
  expect(status).toBe(400);
  expect(body.error.details).toEqual({ field: name, issue });
});

describe("the other lists refuse a filter that they do not have:", () => {
  test.each([
    ["/v1/refunds", "linkId"],
    ["/v1/wallets/sends", "to"],
    ["/v1/events", "type"],
    ["/v1/documents", "reference"],
    ["/v1/payment-links/LINK/payments", "status"],
    ["/v1/webhook-endpoints/ENDPOINT/deliveries", "state"],
  ])("%s has no %s", async (template, name) => {
    const { body: link } = await ann.client.post("/v1/payment-links", { amount: 1, description: "Filtered" });
    const { body: endpoint } = await ann.client.post("/v1/webhook-endpoints", {
      url: "https://example.com/",
    });
    const path = template.replace("LINK", link.id).replace("ENDPOINT", endpoint.data?.id);
    for (const known of ["limit=1", `merchant=${ann.userId}`])
      expect([known, (await ann.client.get(`${path}?${known}`)).status]).toEqual([known, 200]);
    const { status, body } = await ann.client.get(`${path}?${name}=x`);
    expect(status).toBe(400);
    const issue = expect.stringMatching(/^is not one of /);
    expect(body.error).toMatchObject({ code: "VALIDATION_ERROR", details: { field: name, issue } });
  });
});

test("a long name is truncated", async () => {
  const { body } = await ann.client.get(`/v1/transactions?${"x".repeat(10_000)}=1`);
  expect(body.error.details.field).toBe("x".repeat(40));
});

test.each(["status", "type", "dateFrm", "filters"])("an export refuses the field %s", async (name) => {
  const answer = await ann.client.post("/v1/transactions/export", { format: "csv", [name]: "x" });
  expect(answer.status).toBe(400);
  expect(answer.body.error.message).toContain(`has unknown fields: ${name}`);
});

describe("a body about money, owners, keys or webhooks refuses the field that it does not have:", () => {
  test.each([
    ["POST", "/v1/transactions/tx_1/assign", { linkId: "link_1" }, "body"],
    ["POST", "/v1/webhook-endpoints", { url: "https://example.com/" }, "body"],
    ["PATCH", "/v1/webhook-endpoints/ENDPOINT", { enabled: false }, "body"],
    ["POST", "/v1/api-keys", { name: "shop", scopes: ["links:read"] }, "body"],
    ["POST", "/v1/wallets/owners/address/start", { address: `0x${"1".repeat(40)}` }, "body"],
    ["POST", "/v1/wallets/owners/prepare", { add: { type: "member", userId: "user_1" } }, "body"],
    ["POST", "/v1/wallets/owners/prepare", { add: { type: "member", userId: "user_1", x: 1 } }, "add"],
    ["POST", "/v1/wallets/owners/prepare", { remove: { ownerId: "owner_1", x: 1 } }, "remove"],
  ] as const)("%s %s of %j at %s", async (method, template, known, field) => {
    const made = await ann.client.post("/v1/webhook-endpoints", { url: "https://example.com/" });
    const path = template.replace("ENDPOINT", made.body.data.id);
    const body = field === "body" ? { ...known, netwrok: "base" } : known;
    const answer = await (method === "POST" ? ann.client.post(path, body) : ann.client.patch(path, body));
    expect(answer.status).toBe(400);
    const issue = `has unknown fields: ${field === "body" ? "netwrok" : "x"}`;
    expect(answer.body.error).toMatchObject({ code: "VALIDATION_ERROR", details: { field, issue } });
  });
});

test("error: 403 for an export with another's userId", async () => {
  const body = { format: "csv", userId: "user_of-somebody-else" };
  expect((await ann.client.post("/v1/transactions/export", body)).status).toBe(403);
});
