import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";

let world: ApiWorld;
let ann: Merchant;
let bob: Merchant;

beforeAll(async () => {
  world = await startApiWorld();
  [ann, bob] = await Promise.all([signUp(world.baseUrl), signUp(world.baseUrl)]);
}, 120_000);
afterAll(() => world?.stop());

const LINKS = "/v1/payment-links";

describe("creating a link", () => {
  test("answers 201 with the documented fields and no updatedAt", async () => {
    const { status, body, headers } = await ann.client.post(LINKS, {
      userId: ann.userId,
      amount: 12.34,
      description: "Coffee beans",
      expiresInHours: 2,
    });
    expect(status).toBe(201);
    expect(headers.get("x-api-version")).toBe("v1");
    expect(body).toMatchObject({
      amount: 12.34,
      currency: "USDC",
      description: "Coffee beans",
      status: "ACTIVE",
      network: "base-sepolia",
      exception: "NONE",
    });
    expect(body.id).toMatch(/^link_[A-Za-z0-9_-]{22}$/);
    expect(body.url).toBe(`${world.baseUrl}/pay/${body.id}`);
    expect(body.aiUrl).toBe(`${world.baseUrl}/v1/x402/${body.id}`);
    expect(body).not.toHaveProperty("updatedAt");
    expect(Date.parse(body.expiresAt) - Date.parse(body.createdAt)).toBe(2 * 3_600_000);
    const [row] = await world.sql`select amount_units, recipient from payment_links where id = ${body.id}`;
    expect(row).toEqual({ amountUnits: 12_340_000n, recipient: ann.walletAddress });
    const events = await world.sql`select type from events where subject_id = ${body.id}`;
    expect(events.map((event) => event.type)).toEqual(["payment_link.created"]);
  });

  test("defaults to an expiry of 24 hours", async () => {
    const { body } = await ann.client.post(LINKS, { amount: 1, description: "d" });
    expect(Date.parse(body.expiresAt) - Date.parse(body.createdAt)).toBe(24 * 3_600_000);
  });

  // the literal in the body and its micro-USDC
  test.each([
    ["0.000001", 1n],
    ["1e-6", 1n],
    ["1E-06", 1n],
    ["1.10", 1_100_000n],
    ["0.1", 100_000n],
    ["1e2", 100_000_000n],
    ["1.5e1", 15_000_000n],
    ["4.35", 4_350_000n],
    ["8.120000000", 8_120_000n],
    ["999999.999999", 999_999_999_999n],
    ["1000000", 1_000_000_000_000n],
    ["1000000.000000", 1_000_000_000_000n],
  ])("amount %s is exact", async (literal, units) => {
    const { status, body } = await ann.client.post(LINKS, `{"amount": ${literal}, "description": "d"}`);
    expect(status).toBe(201);
    expect(body.amount).toBe(Number(literal));
    const [row] = await world.sql`select amount_units from payment_links where id = ${body.id}`;
    expect(row?.amountUnits).toBe(units);
  });

  test.each([
    "0",
    "-0",
    "-1",
    "0.0000001",
    "1e-7",
    "0.1234567",
    "1.1234567",
    "0.30000000000000004",
    "1.0000000000000000001",
    "0.1000000000000000055",
    "999999.9999999",
    "1000000.000001",
    "1000001",
    "1e7",
    "1e309",
    '"5"',
    "null",
    "true",
    "[5]",
    "{}",
  ])("error: amount %s is refused", async (literal) => {
    const { status, body } = await ann.client.post(LINKS, `{"amount": ${literal}, "description": "d"}`);
    expect(status).toBe(400);
    expect(body.error.code).toBe("VALIDATION_ERROR");
    expect(body.error.details.field).toBe("amount");
  });

  test("an amount nested in another object is ignored", async () => {
    const body = '{"amount": 2.5, "description": "d", "metadata": {"amount": "0.1234567"}}';
    const answer = await ann.client.post(LINKS, body);
    expect(answer.status).toBe(201);
    expect(answer.body.amount).toBe(2.5);
  });

  test.each([
    ["x", true],
    ["x".repeat(500), true],
    ["😀".repeat(500), true],
    ["日本語の説明", true],
    ["x".repeat(501), false],
    ["😀".repeat(501), false],
    ["", false],
    ["   ", false],
    ["nul\u0000", false],
    ["\ud800", false],
  ])("description %#", async (description, isFine) => {
    const { status, body } = await ann.client.post(LINKS, { amount: 1, description });
    expect(status).toBe(isFine ? 201 : 400);
    if (isFine) expect(body.description).toBe(description);
    else expect(body.error.details.field).toBe("description");
  });

  test.each([
    [1, 201],
    [2160, 201],
    [0, 400],
    [-1, 400],
    [2161, 400],
    [1.5, 400],
    ["24", 400],
    [null, 400],
  ])("expiresInHours %p answers %p", async (expiresInHours, status) => {
    const answer = await ann.client.post(LINKS, { amount: 1, description: "d", expiresInHours });
    expect(answer.status).toBe(status);
    if (status === 400) expect(answer.body.error.details.field).toBe("expiresInHours");
  });

  test("error: a network that is unknown or not enabled", async () => {
    for (const network of ["polygon", "base"]) {
      const { status, body } = await ann.client.post(LINKS, { amount: 1, description: "d", network });
      expect(status).toBe(400);
      expect(body.error.details.field).toBe("network");
    }
  });

  test("accepts USDC as the currency and no other", async () => {
    const dollars = await ann.client.post(LINKS, { amount: 1, description: "d", currency: "USDC" });
    expect(dollars.status).toBe(201);
    const euros = await ann.client.post(LINKS, { amount: 1, description: "d", currency: "EUR" });
    expect([euros.status, euros.body.error.details.field]).toEqual([400, "currency"]);
  });

  test("error: missing fields are named", async () => {
    const noAmount = await ann.client.post(LINKS, { description: "d" });
    expect([noAmount.status, noAmount.body.error.details.field]).toEqual([400, "amount"]);
    const noDescription = await ann.client.post(LINKS, { amount: 1 });
    expect([noDescription.status, noDescription.body.error.details.field]).toEqual([400, "description"]);
  });
});

describe("Idempotency-Key", () => {
  const key = () => ({ "idempotency-key": crypto.randomUUID() });

  test("a repeated request gets the stored response and is not executed again", async () => {
    const headers = key();
    const request = { amount: 7.5, description: "once" };
    const first = await ann.client.post(LINKS, request, headers);
    const again = await ann.client.post(LINKS, { description: "once", amount: 7.5 }, headers);
    expect([first.status, again.status]).toEqual([201, 201]);
    expect(again.text).toBe(first.text);
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    expect(again.headers.get("idempotent-replayed")).toBe("true");
  });

  test("ten concurrent requests create one link", async () => {
    const headers = key();
    const description = `ten ${headers["idempotency-key"]}`;
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => ann.client.post(LINKS, { amount: 3, description }, headers)),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
    expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1);
    const rows = await world.sql`select id from payment_links where description = ${description}`;
    expect(rows.length).toBe(1);
  });

  test("error: the same key with another body is 409", async () => {
    const headers = key();
    await ann.client.post(LINKS, { amount: 1, description: "a" }, headers);
    const other = await ann.client.post(LINKS, { amount: 2, description: "a" }, headers);
    expect(other.status).toBe(409);
    expect(other.body.error.code).toBe("CONFLICT");
  });

  test("two users may use the same key", async () => {
    const headers = key();
    const mine = await ann.client.post(LINKS, { amount: 1, description: "a" }, headers);
    const theirs = await bob.client.post(LINKS, { amount: 2, description: "b" }, headers);
    expect([mine.status, theirs.status]).toEqual([201, 201]);
    expect(mine.body.id).not.toBe(theirs.body.id);
  });

  test("a refused request stores nothing", async () => {
    const headers = key();
    expect((await ann.client.post(LINKS, { amount: 0, description: "a" }, headers)).status).toBe(400);
    expect((await ann.client.post(LINKS, { amount: 1, description: "a" }, headers)).status).toBe(201);
  });

  test("255 characters are accepted, 256 are not", async () => {
    const send = (length: number) =>
      ann.client.post(
        LINKS,
        { amount: 1, description: "a" },
        { "idempotency-key": crypto.randomUUID().padEnd(length, "k") },
      );
    expect((await send(255)).status).toBe(201);
    expect((await send(256)).status).toBe(400);
  });
});
