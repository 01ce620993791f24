/** The same nonce again is the same payment only when the payer signed it for this link; a public nonce alone reveals no outcome. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import {
  makePayer,
  type Payer,
  type SignedPayment,
  shapeA,
  shapeB,
  signPayment,
  standardV1,
} from "../support/payer.ts";
import { waitFor } from "../support/relay-lab.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { PATIENT_ENV, startWorld, type World } from "../support/world.ts";

const AMOUNT = 2_500_000n;
let world: World;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  world = await startWorld({ env: PATIENT_ENV });
  sql = world.sql;
  merchant = await seedMerchant(sql);
}, 120_000);

afterAll(() => world?.stop());

type Body = { success: boolean; error: string | null; txHash: string | null };

async function byJson(linkId: string, body: unknown): Promise<{ status: number } & Body> {
  const response = await fetch(`${world.baseUrl}/v1/x402/${linkId}/pay`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: response.status, ...((await response.json()) as Body) };
}

async function byHeader(linkId: string, payment: SignedPayment, network?: "base") {
  const header = Buffer.from(JSON.stringify(standardV1(payment, network))).toString("base64");
  const response = await fetch(`${world.baseUrl}/v1/x402/${linkId}`, { headers: { "x-payment": header } });
  const settlement = response.headers.get("x-payment-response");
  const settled =
    settlement && (JSON.parse(Buffer.from(settlement, "base64").toString()) as { success: boolean });
  return {
    status: response.status,
    reported: settled ? settled.success : undefined,
    ...((await response.json()) as Body),
  };
}

async function newOrder(): Promise<{ linkId: string; payer: Payer; payment: SignedPayment }> {
  const linkId = await seedLink(sql, merchant, { amountUnits: AMOUNT });
  const payer = makePayer();
  await fundUsdc(world.chain.rpcUrl, payer.address, AMOUNT * 3n);
  const payment = await signPayment(payer, { to: merchant.address, amountUnits: AMOUNT });
  return { linkId, payer, payment };
}

/** The same signature with the high s: the token refuses it, we normalise it. */
function highS(payment: SignedPayment): SignedPayment {
  const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;
  const s = order - BigInt(`0x${payment.signature.slice(66, 130)}`);
  const v = payment.signature.endsWith("1b") ? "1c" : "1b";
  const signature = `${payment.signature.slice(0, 66)}${s.toString(16).padStart(64, "0")}${v}` as const;
  return { ...payment, signature: signature as SignedPayment["signature"] };
}

test("behavior: the same authorization is the same payment in every encoding of its signature", async () => {
  const { linkId, payment } = await newOrder();
  const { txHash } = await byJson(linkId, shapeA(payment));
  for (const same of [shapeA(payment), shapeB(payment), shapeA(highS(payment))]) {
    expect(await byJson(linkId, same)).toMatchObject({ status: 409, error: "NONCE_USED", txHash });
  }
  for (const same of [payment, highS(payment)]) {
    expect(await byHeader(linkId, same)).toMatchObject({
      status: 200,
      reported: true,
      success: true,
      txHash,
    });
  }
});

test("error: NONCE_USED for a payment's nonce under another signature, network, amount or payee", async () => {
  const { linkId, payer, payment } = await newOrder();
  expect(await byJson(linkId, shapeA(payment))).toMatchObject({ status: 200 });
  const { nonce } = payment;
  const forged = { ...payment, signature: `0x${"11".repeat(64)}1b` } as const;
  const others = [
    forged,
    { ...forged, signature: `0x${"22".repeat(300)}` } as const,
    { ...payment, validBefore: payment.validBefore + 1 },
    await signPayment(payer, { to: merchant.address, amountUnits: 1n, nonce }),
    await signPayment(payer, { to: payer.address, amountUnits: AMOUNT, nonce }),
  ];
  for (const other of others) {
    const refused = { success: false, error: "NONCE_USED", txHash: null };
    expect(await byJson(linkId, shapeA(other))).toMatchObject({ status: 409, ...refused });
    expect(await byHeader(linkId, other)).toMatchObject({ status: 402, reported: false, accepts: [] });
  }
  const elsewhere = await signPayment(payer, {
    ...{ to: merchant.address, amountUnits: AMOUNT, nonce },
    network: "base",
  });
  expect(await byJson(linkId, shapeA(elsewhere, "base"))).toMatchObject({
    status: 409,
    error: "NONCE_USED",
  });
  expect(await byHeader(linkId, elsewhere, "base")).toMatchObject({ status: 402, reported: false });
});

test("error: NONCE_USED immediately for a forged copy of a payment in flight", async () => {
  const { linkId, payment } = await newOrder();
  const worker = world.pidOf("worker");
  process.kill(worker, "SIGSTOP");
  const paying = byJson(linkId, shapeA(payment));
  try {
    await waitFor("the payment to be stored", async () => {
      const rows = await sql`select 1 from payments where link_id = ${linkId}`;
      return rows.length > 0;
    });
    const forged = { ...payment, signature: `0x${"11".repeat(64)}1b` } as const;
    const refused = await byJson(linkId, shapeA(forged));
    expect(refused).toMatchObject({
      status: 409,
      success: false,
      error: "NONCE_USED",
      txHash: null,
    });
  } finally {
    process.kill(worker, "SIGCONT");
  }
  expect(await paying).toMatchObject({ status: 200, success: true });
}, 120_000);

test("error: INVALID_PAYLOAD_STRUCTURE for a scheme that is not a string", async () => {
  const { linkId, payment } = await newOrder();
  for (const scheme of [{ toString: 1 }, ["exact"], null, 1, {}]) {
    const refused = await byJson(linkId, { ...shapeA(payment), scheme });
    expect(refused).toMatchObject({ status: 400, success: false, error: "INVALID_PAYLOAD_STRUCTURE" });
  }
});
