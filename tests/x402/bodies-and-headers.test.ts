/** Malformed payments: other JSON values in the body, and headers that are too large. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makePayer, signPayment, standardV1, standardV2 } from "../support/payer.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { PATIENT_ENV, startWorld, type World } from "../support/world.ts";

const AMOUNT = 1_750_000n;
/** Documented: the most of a payment header that is read, and of all other headers together. */
const HEADER_MAX = 16_384;
let world: World;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  world = await startWorld({ env: PATIENT_ENV });
  sql = world.sql;
  merchant = await seedMerchant(sql);
}, 120_000);

afterAll(() => world?.stop());

const newLink = () => seedLink(sql, merchant, { amountUnits: AMOUNT });
const urlOf = (linkId: string) => `${world.baseUrl}/v1/x402/${linkId}`;

async function post(url: string, body: string) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  return { status: response.status, body: (await response.json()) as { error: unknown; message?: string } };
}

async function statusOf(linkId: string) {
  const [row] = await sql<{ status: string }[]>`select status from payment_links where id = ${linkId}`;
  return row?.status;
}

async function sign() {
  const payer = makePayer();
  await fundUsdc(world.chain.rpcUrl, payer.address, AMOUNT);
  return signPayment(payer, { to: merchant.address, amountUnits: AMOUNT });
}

describe("a body that is not a payment", () => {
  const values = ["[]", "[{}]", "null", "0", "7", '"payment"', "true", "false", '{"network":"base-sepolia"}'];
  for (const value of values) {
    test(`error: 400 INVALID_PAYLOAD_STRUCTURE for ${value}`, async () => {
      const linkId = await newLink();
      for (const url of [`${urlOf(linkId)}/pay`, urlOf(linkId), `${world.baseUrl}/x402/${linkId}/pay`]) {
        const refused = await post(url, value);
        expect(refused).toMatchObject({ status: 400, body: { error: "INVALID_PAYLOAD_STRUCTURE" } });
      }
      expect(await statusOf(linkId)).toBe("ACTIVE");
    });
  }

  for (const chars of [65_535, 65_536, 65_537, 1_048_576]) {
    test(`a payment in a body of ${chars} characters, of which at most 65,536 are accepted`, async () => {
      const linkId = await newLink();
      const payment = { ...standardV1(await sign()), padding: "" };
      const padding = "x".repeat(chars - JSON.stringify(payment).length);
      const { status, body } = await post(`${urlOf(linkId)}/pay`, JSON.stringify({ ...payment, padding }));
      if (chars <= 65_536) return expect([status, body.error]).toEqual([200, null]);
      expect([status, body]).toEqual([
        400,
        expect.objectContaining({
          error: "INVALID_PAYLOAD_STRUCTURE",
          message: `the body has ${chars} characters; at most 65536 are accepted`,
        }),
      ]);
      expect(await statusOf(linkId)).toBe("ACTIVE");
    });
  }

  test("error: 413 for a body of more than 1 MiB", async () => {
    expect((await post(`${urlOf(await newLink())}/pay`, " ".repeat(1_048_577))).status).toBe(413);
  });

  test("error: 400 for an array nested 10,000 deep", async () => {
    const refused = await post(`${urlOf(await newLink())}/pay`, "[".repeat(10_000) + "]".repeat(10_000));
    expect(refused).toMatchObject({ status: 400, body: { error: "INVALID_PAYLOAD_STRUCTURE" } });
  });

  for (const value of ["", " \n", "{}"]) {
    test(`behavior: ${JSON.stringify(value)} asks for the requirements`, async () => {
      const asked = await post(`${urlOf(await newLink())}/pay`, value);
      expect(asked).toMatchObject({ status: 402, body: { error: null } });
    });
  }
});

/** A payload padded with an unread field, so that its header has exactly this many characters (a multiple of 4). */
function inHeader(payload: object, chars: number): string {
  const bare = JSON.stringify({ ...payload, padding: "" }).length;
  const text = JSON.stringify({ ...payload, padding: "x".repeat((chars / 4) * 3 - bare) });
  const header = Buffer.from(text).toString("base64");
  if (header.length !== chars) throw new Error(`made ${header.length} characters instead of ${chars}`);
  return header;
}

describe("a large payment header", () => {
  for (const [name, toPayload] of [
    ["X-PAYMENT", standardV1],
    ["PAYMENT-SIGNATURE", standardV2],
  ] as const) {
    test(`pays with ${name} of ${HEADER_MAX} characters`, async () => {
      const linkId = await newLink();
      const headers = { [name]: inHeader(toPayload(await sign()), HEADER_MAX) };
      const response = await fetch(urlOf(linkId), { headers });
      expect(response.status).toBe(200);
      expect(await statusOf(linkId)).toBe("PAID");
    });

    for (const chars of [HEADER_MAX + 4, 65_536, 1_048_576]) {
      test(`error: 402 names the limit for ${name} of ${chars} characters`, async () => {
        const linkId = await newLink();
        const headers = { [name]: inHeader(toPayload(await sign()), chars) };
        for (const url of [urlOf(linkId), `${urlOf(linkId)}/pay`]) {
          const response = await fetch(url, { headers });
          expect(response.status).toBe(402);
          expect(response.headers.get("content-type")).toContain("application/json");
          expect(await response.json()).toMatchObject({
            error: "INVALID_PAYLOAD_STRUCTURE",
            message: `the payment header has ${chars} characters; at most ${HEADER_MAX} are accepted`,
            accepts: [{ scheme: "exact" }],
          });
        }
        expect(await statusOf(linkId)).toBe("ACTIVE");
      });
    }
  }
});

describe("other large headers", () => {
  /** The headers that fetch adds are smaller than this. */
  const OWN_CHARS = 1_000;

  for (const chars of [HEADER_MAX, 300_000]) {
    test(`error: 431 with a body for a header of ${chars} characters, on every route`, async () => {
      const linkId = await newLink();
      for (const url of [`${world.baseUrl}/health`, urlOf(linkId), `${world.baseUrl}/nothing-is-here`]) {
        const response = await fetch(url, { headers: { "x-filler": "f".repeat(chars) } });
        expect(response.status).toBe(431);
        expect(await response.json()).toMatchObject({
          error: { code: "VALIDATION_ERROR", details: { field: "headers", issue: "too_large" } },
        });
      }
    });
  }

  test("error: 431 for many small headers that are too large together", async () => {
    const names = Array.from({ length: 40 }, (_, at) => `x-part-${at}`);
    const headers = Object.fromEntries(names.map((name) => [name, "f".repeat(HEADER_MAX / 40)]));
    expect((await fetch(`${world.baseUrl}/health`, { headers })).status).toBe(431);
  });

  test("behavior: headers just below the limit are accepted together with a payment header of full size", async () => {
    const linkId = await newLink();
    const filler = randomBytes(HEADER_MAX)
      .toString("hex")
      .slice(0, HEADER_MAX - OWN_CHARS);
    const payment = inHeader(standardV2(await sign()), HEADER_MAX);
    const headers = { "x-filler": filler, "payment-signature": payment };
    expect((await fetch(`${world.baseUrl}/health`, { headers: { "x-filler": filler } })).status).toBe(200);
    expect((await fetch(urlOf(linkId), { headers })).status).toBe(200);
    expect(await statusOf(linkId)).toBe("PAID");
  });
});
