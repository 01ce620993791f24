import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type Hex, NETWORKS } from "../../core/domain/networks.ts";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import {
  makePayer,
  type SignedPayment,
  shapeA,
  shapeB,
  signPayment,
  standardV1,
  standardV2,
} from "../support/payer.ts";
import { randomAddress, type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { PATIENT_ENV, startWorld, type World } from "../support/world.ts";

const AMOUNT = 1_250_000n;
let world: World;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  world = await startWorld({ env: PATIENT_ENV });
  sql = world.sql;
  merchant = await seedMerchant(sql);
}, 120_000);

afterAll(() => world?.stop());

async function fundedPayer() {
  const payer = makePayer();
  await fundUsdc(world.chain.rpcUrl, payer.address, 10_000_000n);
  return payer;
}

function post(linkId: string, body: unknown, headers: Record<string, string> = {}, prefix = "/v1/x402") {
  return fetch(`${world.baseUrl}${prefix}/${linkId}/pay`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

async function sign(linkTo: Hex = merchant.address, amountUnits = AMOUNT): Promise<SignedPayment> {
  return signPayment(await fundedPayer(), { to: linkTo, amountUnits });
}

/** The fields of an x402 answer. */
type Body = { success: boolean; txHash: string; error: string | null; accepts: Record<string, unknown>[] };

async function readBody(response: Response): Promise<Body> {
  return (await response.json()) as Body;
}

async function linkRow(id: string) {
  const [row] = await sql<{ status: string; exception: string }[]>`
    select status, exception from payment_links where id = ${id}`;
  return row;
}

describe("paying a link", () => {
  for (const [name, shape] of Object.entries({ shapeA, shapeB, standardV1, standardV2 })) {
    test(`pays an active link with ${name}`, async () => {
      const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
      const before = await readUsdcBalance(world.chain.rpcUrl, merchant.address);
      const response = await post(linkId, shape(await sign()));
      const body = await readBody(response);
      expect(body).toMatchObject({ success: true, networkId: "base-sepolia", error: null, settled: true });
      expect(response.status).toBe(200);
      expect(body.txHash).toMatch(/^0x[0-9a-f]{64}$/);
      expect(await readUsdcBalance(world.chain.rpcUrl, merchant.address)).toBe(before + AMOUNT);
      expect(await linkRow(linkId)).toEqual({ status: "PAID", exception: "NONE" });
      const [row] = await sql<{ type: string; status: string; amountUnits: bigint; txHash: string }[]>`
        select type, status, amount_units, tx_hash from transactions where link_id = ${linkId}`;
      expect(row).toEqual({
        type: "PAYMENT_LINK",
        status: "CONFIRMED",
        amountUnits: AMOUNT,
        txHash: body.txHash,
      });
    });
  }

  test("pays on the path of shape B", async () => {
    const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
    const response = await post(linkId, shapeB(await sign()), {}, "/x402");
    expect(response.status).toBe(200);
  });

  for (const [name, twist] of Object.entries({
    "v 0 or 1": (p: SignedPayment): SignedPayment => {
      const v = Number.parseInt(p.signature.slice(130), 16) - 27;
      return { ...p, signature: `${p.signature.slice(0, 130)}0${v}` as Hex };
    },
    "the compact form of EIP-2098": (p: SignedPayment): SignedPayment => {
      const odd = p.signature.endsWith("1c");
      const top = Number.parseInt(p.signature.slice(66, 68), 16) | (odd ? 0x80 : 0);
      const s = top.toString(16).padStart(2, "0") + p.signature.slice(68, 130);
      return { ...p, signature: `${p.signature.slice(0, 66)}${s}` as Hex };
    },
    "the other s": (p: SignedPayment): SignedPayment => {
      const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
      const s = (order - BigInt(`0x${p.signature.slice(66, 130)}`)).toString(16).padStart(64, "0");
      return {
        ...p,
        signature: `${p.signature.slice(0, 66)}${s}${p.signature.endsWith("1b") ? "1c" : "1b"}` as Hex,
      };
    },
  })) {
    test(`accepts a signature with ${name}`, async () => {
      const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
      const response = await post(linkId, shapeA(twist(await sign())));
      expect(await response.json()).toMatchObject({ success: true, error: null });
    });
  }
});

describe("the same authorization again", () => {
  test("error: NONCE_USED with the original hash for a repeated payment on the JSON way", async () => {
    const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
    const payment = await sign();
    const first = await readBody(await post(linkId, shapeA(payment)));
    const again = await post(linkId, shapeB(payment));
    expect(again.status).toBe(409);
    expect(await again.json()).toMatchObject({ success: false, error: "NONCE_USED", txHash: first.txHash });
  });

  test("behavior: a repeated payment with the same Idempotency-Key gets the original 200", async () => {
    const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
    const payment = await sign();
    const headers = { "idempotency-key": "order-17" };
    const first = await readBody(await post(linkId, shapeA(payment), headers));
    const again = await post(linkId, shapeA(payment), headers);
    expect(again.status).toBe(200);
    expect(await again.json()).toMatchObject({ success: true, txHash: first.txHash });
  });

  test("behavior: a repeated payment on the header way gets the original 200", async () => {
    const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
    const header = Buffer.from(JSON.stringify(standardV1(await sign()))).toString("base64");
    const url = `${world.baseUrl}/v1/x402/${linkId}`;
    const first = await fetch(url, { headers: { "x-payment": header } });
    const again = await fetch(url, { headers: { "x-payment": header } });
    expect([first.status, again.status]).toEqual([200, 200]);
    const decode = (response: Response) => {
      const header = response.headers.get("x-payment-response") ?? "";
      // a receipt is issued with each response
      const { extensions: _, ...settlement } = JSON.parse(Buffer.from(header, "base64").toString());
      return settlement;
    };
    expect(decode(again)).toEqual(decode(first));
    expect(decode(first)).toMatchObject({ success: true, network: "base-sepolia" });
  });

  test("error: 409 for an authorization submitted for another link", async () => {
    const [one, other] = [
      await seedLink(sql, merchant, { amountUnits: AMOUNT }),
      await seedLink(sql, merchant, { amountUnits: AMOUNT }),
    ];
    const payment = await sign();
    expect((await post(one, shapeA(payment))).status).toBe(200);
    const refused = await post(other, shapeA(payment));
    expect(refused.status).toBe(409);
    expect(await refused.json()).toMatchObject({ error: "NONCE_USED" });
    expect(await linkRow(other)).toEqual({ status: "ACTIVE", exception: "NONE" });
  });

  test("behavior: one payment sent 16 times concurrently is one transfer and 16 equal hashes", async () => {
    const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
    const payment = await sign();
    const answers = await Promise.all(
      Array.from({ length: 16 }, async () => {
        const response = await post(linkId, shapeA(payment));
        return (await response.json()) as { txHash: string };
      }),
    );
    expect(new Set(answers.map((answer) => answer.txHash)).size).toBe(1);
    const rows = await sql`select id from transfers where from_address = ${payment.from}`;
    expect(rows.length).toBe(1);
  });
});

describe("many payers, one link", () => {
  test("behavior: 64 payers make exactly one transfer and 63 clear refusals", async () => {
    const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
    const payments = await Promise.all(Array.from({ length: 64 }, () => sign()));
    const answers = await Promise.all(
      payments.map(async (payment) => {
        const response = await post(linkId, shapeA(payment));
        const body = (await response.json()) as { error: string | null };
        return { status: response.status, error: body.error };
      }),
    );
    const paid = answers.filter((answer) => answer.status === 200);
    const refused = answers.filter((answer) => answer.status === 409);
    expect([paid.length, refused.length]).toEqual([1, 63]);
    for (const { error } of refused)
      expect(["PAYMENT_IN_PROGRESS", "LINK_ALREADY_PAID"]).toContain(error ?? "");
    const transfers = await sql`select id from transfers where link_id = ${linkId}`;
    expect(transfers.length).toBe(1);
    const reverted = await sql`select id from relays where succeeded = false`;
    expect(reverted.length).toBe(0);
  });
});

describe("refusals", () => {
  const cases: [string, number, string, (payment: SignedPayment) => Promise<unknown> | unknown][] = [
    ["a body that is not JSON", 400, "INVALID_PAYLOAD_STRUCTURE", () => "{"],
    [
      "a payload without fields",
      400,
      "INVALID_PAYLOAD_STRUCTURE",
      () => ({ network: "base-sepolia", payload: {} }),
    ],
    ["a short nonce", 400, "INVALID_PAYLOAD_STRUCTURE", (p) => shapeA({ ...p, nonce: "0x12" })],
    [
      "two forms of a signature that disagree",
      400,
      "INVALID_PAYLOAD_STRUCTURE",
      async (p) => ({ ...shapeB(p), payload: { ...shapeB(p).payload, signature: (await sign()).signature } }),
    ],
    [
      "another signer's signature",
      400,
      "INVALID_SIGNATURE",
      async (p) => shapeA({ ...p, signature: (await sign()).signature }),
    ],
    ["another network", 422, "NETWORK_MISMATCH", (p) => shapeA(p, "base")],
  ];
  for (const [name, status, error, make] of cases) {
    test(`error: ${error} for ${name}`, async () => {
      const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
      const response = await post(linkId, await make(await sign()));
      expect(await response.json()).toMatchObject({ success: false, txHash: null, error });
      expect(response.status).toBe(status);
      expect(await linkRow(linkId)).toEqual({ status: "ACTIVE", exception: "NONE" });
    });
  }

  type Terms = Partial<Parameters<typeof signPayment>[1]>;
  /** Asked when the test begins: the world's start takes longer than some of these windows. */
  const terms: [string, number, string, (nowS: number) => Terms][] = [
    ["one micro-USDC more", 422, "AMOUNT_EXCEEDS_MAXIMUM", () => ({ amountUnits: AMOUNT + 1n })],
    ["one micro-USDC less", 422, "AMOUNT_BELOW_REQUIRED", () => ({ amountUnits: AMOUNT - 1n })],
    ["another recipient", 422, "RECIPIENT_MISMATCH", () => ({ to: randomAddress() })],
    ["a window that is over", 400, "EXPIRED_TRANSFER", (nowS) => ({ validBefore: nowS - 1 })],
    ["a window with too little left", 400, "EXPIRED_TRANSFER", (nowS) => ({ validBefore: nowS + 3 })],
    [
      "a window that has not begun",
      400,
      "NOT_YET_VALID",
      (nowS) => ({ validAfter: nowS + 3_600, validBefore: nowS + 7_200 }),
    ],
    ["a signature for the other chain", 400, "INVALID_SIGNATURE", () => ({ network: "base" })],
  ];
  for (const [name, status, error, change] of terms) {
    test(`error: ${error} for ${name}`, async () => {
      const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
      const payment = await signPayment(await fundedPayer(), {
        to: merchant.address,
        amountUnits: AMOUNT,
        ...change(Math.floor(Date.now() / 1000)),
      });
      const response = await post(linkId, shapeA(payment));
      expect(await response.json()).toMatchObject({ success: false, error });
      expect(response.status).toBe(status);
      expect(await linkRow(linkId)).toEqual({ status: "ACTIVE", exception: "NONE" });
    });
  }

  test("error: INSUFFICIENT_FUNDS releases the link, and the same authorization pays after a top-up", async () => {
    const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
    const payer = makePayer();
    const payment = await signPayment(payer, { to: merchant.address, amountUnits: AMOUNT });
    const refused = await post(linkId, shapeA(payment));
    expect(await refused.json()).toMatchObject({ success: false, error: "INSUFFICIENT_FUNDS" });
    expect(refused.status).toBe(422);
    expect(await linkRow(linkId)).toEqual({ status: "ACTIVE", exception: "NONE" });
    await fundUsdc(world.chain.rpcUrl, payer.address, AMOUNT);
    expect(await (await post(linkId, shapeA(payment))).json()).toMatchObject({ success: true });
  });

  test("error: NOT_FOUND for an unknown link on every way", async () => {
    const unknown = `link_${"A".repeat(22)}`;
    expect((await fetch(`${world.baseUrl}/v1/x402/${unknown}`)).status).toBe(404);
    expect((await post(unknown, shapeA(await sign()))).status).toBe(404);
    expect((await fetch(`${world.baseUrl}/v1/x402/%00`)).status).toBe(404);
  });

  test("error: an expired link is 402 without accepts on GET and LINK_NOT_PAYABLE on POST", async () => {
    const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT, expiresInS: -1 });
    const asked = await fetch(`${world.baseUrl}/v1/x402/${linkId}`);
    expect(asked.status).toBe(402);
    expect(await asked.json()).toMatchObject({ accepts: [], error: "LINK_EXPIRED" });
    const refused = await post(linkId, shapeA(await sign()));
    expect(refused.status).toBe(422);
    expect(await refused.json()).toMatchObject({ error: "LINK_NOT_PAYABLE" });
  });
});

describe("reading the terms", () => {
  test("the 402 merges shape A with the standard item, and has version 2 in its header", async () => {
    const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
    const response = await fetch(`${world.baseUrl}/v1/x402/${linkId}`);
    expect(response.status).toBe(402);
    const body = await readBody(response);
    const { usdc } = NETWORKS["base-sepolia"];
    expect(body).toMatchObject({ x402Version: 1, error: null });
    expect(body.accepts).toHaveLength(1);
    expect(body.accepts[0]).toMatchObject({
      ...{ amount: "1250000", currency: "USDC", network: "base-sepolia", recipient: merchant.address },
      ...{ verifyingContract: usdc.address, chainId: 84532, maxAmountRequired: "1250000", scheme: "exact" },
    });
    const header = JSON.parse(
      Buffer.from(response.headers.get("payment-required") ?? "", "base64").toString(),
    );
    expect(header).toMatchObject({ x402Version: 2 });
    expect(header.accepts[0]).toMatchObject({ scheme: "exact", network: "eip155:84532", amount: "1250000" });
    const extra = { name: usdc.name, version: usdc.version, primaryType: "TransferWithAuthorization" };
    expect([body.accepts[0]?.extra, header.accepts[0].extra]).toEqual([extra, extra]);
  });

  test("the 402 is exactly shape B on its own path, and `shape` chooses either", async () => {
    const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
    const literal = await readBody(await fetch(`${world.baseUrl}/x402/${linkId}`));
    expect(literal.accepts[0]).toEqual({
      scheme: "evm-erc3009",
      network: "base-sepolia",
      maxAmountRequired: 1_250_000,
      resource: expect.stringContaining(`/v1/x402/${linkId}`),
      description: "a test link",
      mimeType: "application/json",
      payTo: merchant.address,
      maxTimeoutSeconds: 300,
      asset: "USDC",
    });
    const chosen = await readBody(await fetch(`${world.baseUrl}/x402/${linkId}?shape=a`));
    expect(chosen.accepts[0]).toMatchObject({ scheme: "exact", amount: "1250000" });
  });

  test("POST …/pay without a payment gets the terms", async () => {
    const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
    const response = await fetch(`${world.baseUrl}/v1/x402/${linkId}/pay`, { method: "POST" });
    expect(response.status).toBe(402);
  });

  test("a browser's preflight allows what standard clients send", async () => {
    for (const path of ["", "/pay", "/payments/pay_x"]) {
      const response = await fetch(`${world.baseUrl}/v1/x402/link_x${path}`, { method: "OPTIONS" });
      expect(response.status).toBe(204);
      expect(response.headers.get("access-control-allow-headers")).toContain("x-payment");
      expect(response.headers.get("access-control-allow-headers")).toContain("access-control-expose-headers");
    }
  });
});
