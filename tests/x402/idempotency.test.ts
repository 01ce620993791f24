/** One key, one payment: Idempotency-Key and the payment-identifier extension, and links that get paid while a payment waits. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makePayer, type SignedPayment, shapeA, signPayment, standardV2 } from "../support/payer.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { PATIENT_ENV, startWorld, type World } from "../support/world.ts";

const AMOUNT = 1_500_000n;
const IDENTIFIER = "order_2026-11-20_0001";
let world: World;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  world = await startWorld({ env: PATIENT_ENV });
  sql = world.sql;
  merchant = await seedMerchant(sql);
}, 120_000);

afterAll(() => world?.stop());

async function sign(): Promise<SignedPayment> {
  const payer = makePayer();
  await fundUsdc(world.chain.rpcUrl, payer.address, AMOUNT * 2n);
  return signPayment(payer, { to: merchant.address, amountUnits: AMOUNT });
}

const newLink = () => seedLink(sql, merchant, { amountUnits: AMOUNT });

/** A version 2 payload with the extension that the 402 offers, filled in. */
function identified(payment: SignedPayment, info: Record<string, unknown>) {
  const resource = { url: "https://shop.test", description: "", mimeType: "application/json" };
  return { ...standardV2(payment), resource, extensions: { "payment-identifier": { info, schema: {} } } };
}

type PayBody = { error: string | null; txHash: string | null; message?: string };

async function byHeader(linkId: string, payload: unknown) {
  const response = await fetch(`${world.baseUrl}/v1/x402/${linkId}`, {
    headers: { "payment-signature": Buffer.from(JSON.stringify(payload)).toString("base64") },
  });
  const body = (await response.json()) as PayBody & { accepts?: unknown };
  return { status: response.status, body, headers: response.headers };
}

async function byJson(linkId: string, body: unknown, key?: string) {
  const response = await fetch(`${world.baseUrl}/v1/x402/${linkId}/pay`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(key ? { "idempotency-key": key } : {}) },
    body: JSON.stringify(body),
  });
  const answer = (await response.json()) as PayBody;
  return { status: response.status, body: answer, headers: response.headers };
}

describe("payment-identifier", () => {
  test("the 402's header offers the payment-identifier extension", async () => {
    const response = await fetch(`${world.baseUrl}/v1/x402/${await newLink()}`);
    const header = Buffer.from(response.headers.get("payment-required") ?? "", "base64").toString();
    expect(JSON.parse(header).extensions["payment-identifier"].info).toEqual({ required: false });
  });

  test("behavior: the same identifier and payload again get the first answer, marked as replayed", async () => {
    const linkId = await newLink();
    const payload = identified(await sign(), { required: false, id: IDENTIFIER });
    const first = await byHeader(linkId, payload);
    const again = await byHeader(linkId, payload);
    expect([first.status, again.status]).toEqual([200, 200]);
    expect(again.body).toEqual(first.body);
    const [settlement, repeated] = [first, again].map(({ headers }) => {
      const text = Buffer.from(headers.get("payment-response") ?? "", "base64").toString();
      // a receipt is issued with each response
      const { extensions: _, ...settled } = JSON.parse(text);
      return settled;
    });
    expect(repeated).toEqual(settlement);
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    expect(again.headers.get("idempotent-replayed")).toBe("true");
  });

  test("behavior: the same identifier and payload again get the first answer on the JSON way too", async () => {
    const linkId = await newLink();
    const payload = identified(await sign(), { id: IDENTIFIER });
    const first = await byJson(linkId, payload);
    const again = await byJson(linkId, payload);
    expect([first.status, again.status]).toEqual([200, 200]);
    expect(again.body.txHash).toBe(first.body.txHash);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
  });

  test("error: 409 for the same identifier with another payload, on both ways", async () => {
    const linkId = await newLink();
    const first = await byHeader(linkId, identified(await sign(), { id: IDENTIFIER }));
    expect(first.status).toBe(200);
    const other = identified(await sign(), { id: IDENTIFIER });
    for (const refused of [await byHeader(linkId, other), await byJson(linkId, other)]) {
      expect(refused.status).toBe(409);
      expect(refused.body).toMatchObject({ error: "IDEMPOTENCY_KEY_REUSED", txHash: null });
      expect(refused.body.message).toContain("idempotency key");
    }
    const paid = await sql`select id from transfers where link_id = ${linkId}`;
    expect(paid.length).toBe(1);
  });

  test("error: INVALID_PAYLOAD_STRUCTURE for an identifier that is required and missing, or malformed", async () => {
    const linkId = await newLink();
    const payment = await sign();
    for (const info of [{ required: true }, { id: "short" }, { id: "with spaces in between" }]) {
      const refused = await byJson(linkId, identified(payment, info));
      expect(refused.status).toBe(400);
      expect(refused.body).toMatchObject({ error: "INVALID_PAYLOAD_STRUCTURE" });
    }
    const onHeader = await byHeader(linkId, identified(payment, { required: true }));
    expect(onHeader.status).toBe(402);
    expect(onHeader.body).toMatchObject({ error: "INVALID_PAYLOAD_STRUCTURE" });
  });
});

describe("Idempotency-Key", () => {
  test("behavior: of 20 payers with one key concurrently one pays and the others get 409, never a 5xx", async () => {
    const linkId = await newLink();
    const payments = await Promise.all(Array.from({ length: 20 }, sign));
    const answers = await Promise.all(
      payments.map((payment) => byJson(linkId, shapeA(payment), "one key for all")),
    );
    const statuses = answers.map(({ status }) => status).toSorted((a, b) => a - b);
    expect(statuses).toEqual([200, ...Array.from({ length: 19 }, () => 409)]);
  });

  test("error: 409 IDEMPOTENCY_KEY_REUSED for a key with another payment; the same payment gets the first answer", async () => {
    const linkId = await newLink();
    const payment = shapeA(await sign());
    const first = await byJson(linkId, payment, "order 4711");
    expect(first.status).toBe(200);
    const other = shapeA(await sign());
    const reused = await byJson(linkId, other, "order 4711");
    expect(reused.status).toBe(409);
    expect(reused.body).toMatchObject({ error: "IDEMPOTENCY_KEY_REUSED", txHash: null });
    expect((await byJson(linkId, other, "order 4712")).body.error).toBe("LINK_ALREADY_PAID");
    const again = await byJson(linkId, payment, "order 4711");
    expect([again.status, again.body.txHash]).toEqual([200, first.body.txHash]);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
  });

  test("behavior: the same key on another link pays that link", async () => {
    for (const linkId of [await newLink(), await newLink()]) {
      expect((await byJson(linkId, shapeA(await sign()), "reused")).status).toBe(200);
    }
  });

  test("error: INVALID_PAYLOAD_STRUCTURE for an Idempotency-Key of 256 characters; one of 255 pays", async () => {
    const linkId = await newLink();
    expect((await byJson(linkId, shapeA(await sign()), "k".repeat(256))).status).toBe(400);
    expect((await byJson(linkId, shapeA(await sign()), "k".repeat(255))).status).toBe(200);
  });
});
