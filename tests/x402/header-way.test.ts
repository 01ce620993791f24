/** Payments in X-PAYMENT (version 1) and PAYMENT-SIGNATURE (version 2): the answers to refused, repeated and competing payments. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makePayer, shapeA, signPayment, standardV1, standardV2 } from "../support/payer.ts";
import { randomAddress, type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { PATIENT_ENV, startWorld, type World } from "../support/world.ts";

const AMOUNT = 1_350_000n;
let world: World;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  world = await startWorld({ env: PATIENT_ENV });
  sql = world.sql;
  merchant = await seedMerchant(sql);
}, 120_000);

afterAll(() => world?.stop());

type Terms = Partial<Parameters<typeof signPayment>[1]> & { funds?: bigint };

async function sign({ funds = AMOUNT, ...terms }: Terms = {}) {
  const payer = makePayer();
  await fundUsdc(world.chain.rpcUrl, payer.address, funds);
  return signPayment(payer, { to: merchant.address, amountUnits: AMOUNT, ...terms });
}

const newLink = () => seedLink(sql, merchant, { amountUnits: AMOUNT });
const urlOf = (linkId: string) => `${world.baseUrl}/v1/x402/${linkId}`;
const encode = (payload: unknown) => Buffer.from(JSON.stringify(payload)).toString("base64");
const decode = (header: string | null) => JSON.parse(Buffer.from(header ?? "", "base64").toString());

async function payersOf(linkId: string): Promise<string[]> {
  const rows = await sql<{ fromAddress: string }[]>`
    select from_address from transfers where link_id = ${linkId} and status <> 'ORPHANED'`;
  return rows.map(({ fromAddress }) => fromAddress);
}

const versions = [
  {
    ...{ header: "x-payment", answer: "x-payment-response", network: "base-sepolia", other: "base" },
    toPayload: standardV1,
  },
  {
    ...{ header: "payment-signature", answer: "payment-response", network: "eip155:84532" },
    ...{ other: "eip155:8453", toPayload: standardV2 },
  },
] as const;

for (const { header, answer, network, other, toPayload } of versions) {
  describe(header, () => {
    const send = (linkId: string, payload: unknown, init: RequestInit = {}) =>
      fetch(urlOf(linkId), { ...init, headers: { [header]: encode(payload) } });

    test("on HEAD pays nothing: the answer is the one without a payment, and the payment stays valid", async () => {
      const [linkId, payment] = [await newLink(), await sign()];
      const asked = await send(linkId, toPayload(payment), { method: "HEAD" });
      expect(asked.status).toBe(402);
      expect(decode(asked.headers.get("payment-required")).accepts).toHaveLength(1);
      expect(await sql`select from payments where link_id = ${linkId}`).toHaveLength(0);
      expect((await send(linkId, toPayload(payment))).status).toBe(200);
      expect(await payersOf(linkId)).toHaveLength(1);
    });

    test("pays: 200, and the response's header has payer, hash and the network as its version names it", async () => {
      const [linkId, payment] = [await newLink(), await sign()];
      const response = await send(linkId, toPayload(payment));
      expect(response.status).toBe(200);
      const body = (await response.json()) as { txHash: string };
      expect(decode(response.headers.get(answer))).toEqual({
        ...{ success: true, transaction: body.txHash, network, payer: payment.from },
        extensions: { "offer-receipt": expect.anything() },
      });
      expect(response.headers.get("access-control-expose-headers")).toMatch(new RegExp(answer, "i"));
      expect(await payersOf(linkId)).toEqual([payment.from]);
    });

    const nowS = Math.floor(Date.now() / 1000);
    const refusals: [string, string, Terms][] = [
      ["RECIPIENT_MISMATCH", "invalid_exact_evm_payload_recipient_mismatch", { to: randomAddress() }],
      [
        "AMOUNT_EXCEEDS_MAXIMUM",
        "invalid_exact_evm_payload_authorization_value_mismatch",
        { amountUnits: AMOUNT + 1n },
      ],
      ["EXPIRED_TRANSFER", "invalid_exact_evm_payload_authorization_valid_before", { validBefore: nowS }],
      ["INVALID_SIGNATURE", "invalid_exact_evm_payload_signature", { network: "base" }],
      ["INSUFFICIENT_FUNDS", "insufficient_funds", { funds: 1n }],
    ];
    for (const [error, errorReason, terms] of refusals) {
      test(`error: ${error} is 402 with the requirements, a message, and ${errorReason} in the header`, async () => {
        const [linkId, payment] = [await newLink(), await sign(terms)];
        const response = await send(linkId, toPayload(payment));
        expect(response.status).toBe(402);
        const body = await response.json();
        expect(body).toMatchObject({ error, accepts: [{ scheme: "exact", payTo: merchant.address }] });
        expect(body).toMatchObject({ message: expect.stringMatching(/\w+ \w+/) });
        expect(decode(response.headers.get("payment-required"))).toMatchObject({ x402Version: 2, error });
        expect(decode(response.headers.get(answer))).toEqual({
          ...{ success: false, transaction: "", network, payer: payment.from, errorReason },
        });
        expect(await payersOf(linkId)).toEqual([]);
      });
    }

    test("error: NETWORK_MISMATCH when the payload names the other network", async () => {
      const linkId = await newLink();
      const payload = toPayload(await sign({ network: "base" }), "base");
      expect(JSON.stringify(payload)).toContain(`"${other}"`);
      const response = await send(linkId, payload);
      expect(response.status).toBe(402);
      expect(await response.json()).toMatchObject({ error: "NETWORK_MISMATCH" });
      expect(decode(response.headers.get(answer))).toMatchObject({ errorReason: "invalid_network" });
    });

    test("error: LINK_ALREADY_PAID has no accepts, so that no client pays again", async () => {
      const linkId = await newLink();
      expect((await send(linkId, toPayload(await sign()))).status).toBe(200);
      const response = await send(linkId, toPayload(await sign()));
      expect(response.status).toBe(402);
      expect(await response.json()).toMatchObject({ error: "LINK_ALREADY_PAID", accepts: [] });
      expect(decode(response.headers.get("payment-required"))).toMatchObject({ accepts: [] });
      expect(await payersOf(linkId)).toHaveLength(1);
    });

    test("pays with POST by the header, and ignores the body", async () => {
      const [linkId, paying, ignored] = [await newLink(), await sign(), await sign()];
      const body = JSON.stringify(shapeA(ignored));
      const response = await send(linkId, toPayload(paying), { method: "POST", body });
      expect(response.status).toBe(200);
      expect(await payersOf(linkId)).toEqual([paying.from]);
    });
  });
}

describe("both headers", () => {
  test("behavior: of two payments in both headers only version 2's is accepted", async () => {
    const [linkId, one, two] = [await newLink(), await sign(), await sign()];
    const headers = { "x-payment": encode(standardV1(one)), "payment-signature": encode(standardV2(two)) };
    const response = await fetch(urlOf(linkId), { headers });
    expect(response.status).toBe(200);
    expect(response.headers.get("x-payment-response")).toBeNull();
    expect(decode(response.headers.get("payment-response"))).toMatchObject({ payer: two.from });
    expect(await payersOf(linkId)).toEqual([two.from]);
    const payments = await sql`select id from payments where payer = ${one.from}`;
    expect(payments.length).toBe(0);
  });

  test("behavior: a payload of the other version in a header pays, and is answered in the header's version", async () => {
    const [linkId, payment] = [await newLink(), await sign()];
    const response = await fetch(urlOf(linkId), {
      headers: { "payment-signature": encode(standardV1(payment)) },
    });
    expect(response.status).toBe(200);
    expect(decode(response.headers.get("payment-response"))).toMatchObject({ network: "eip155:84532" });
    expect(await payersOf(linkId)).toEqual([payment.from]);
  });
});
