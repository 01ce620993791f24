/** A payer's ten attempts a minute cannot be used up by others: authorizations used before are public, and a stranger who presents one again takes none of them. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makePayer, type Payer, type SignedPayment, shapeA, signPayment } from "../support/payer.ts";
import { openPauses } from "../support/poll.ts";
import { type SeededMerchant, seedLink, seedLinks, seedMerchant } from "../support/seed.ts";
import { broadcastAsStranger } from "../support/stranger.ts";
import { PATIENT_ENV, startWorld, type World } from "../support/world.ts";

const AMOUNT = 2_500_000n;
const LIMIT = 10;
let world: World;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  world = await startWorld({ env: { ...PATIENT_ENV, RATE_LIMITS: "1", TRUSTED_PROXIES: "127.0.0.1,::1" } });
  sql = world.sql;
  merchant = await seedMerchant(sql);
}, 120_000);
afterAll(() => world?.stop());

async function newPayer(): Promise<{ payer: Payer; payment: SignedPayment }> {
  const payer = makePayer();
  await fundUsdc(world.chain.rpcUrl, payer.address, AMOUNT * 3n);
  return { payer, payment: await sign(payer) };
}

function sign(payer: Payer): Promise<SignedPayment> {
  return signPayment(payer, { to: merchant.address, amountUnits: AMOUNT });
}

let lastAddress = 0;

/** Each from another address, so that only the payer's limit counts. */
async function post(linkId: string, payment: SignedPayment) {
  lastAddress += 1;
  const response = await fetch(`${world.baseUrl}/v1/x402/${linkId}/pay`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-forwarded-for": `203.0.113.${lastAddress}` },
    body: JSON.stringify(shapeA(payment)),
  });
  const body = (await response.json()) as { error: unknown; txHash?: string };
  return { status: response.status, error: body.error, txHash: body.txHash };
}

const newLink = () => seedLink(sql, merchant, { amountUnits: AMOUNT });

test("a payment that is replayed at other links does not count towards its payer's limit", async () => {
  const { payer, payment } = await newPayer();
  const { status, txHash } = await post(await newLink(), payment);
  expect(status).toBe(200);
  for (let replay = 0; replay <= LIMIT; replay++) {
    expect(await post(await newLink(), payment)).toEqual({ status: 409, error: "NONCE_USED", txHash });
  }
  expect(await post(await newLink(), await sign(payer))).toMatchObject({ status: 200 });
}, 120_000);

test("a payment that is replayed at a reusable link opens no use of it", async () => {
  const { payment } = await newPayer();
  expect(await post(await newLink(), payment)).toMatchObject({ status: 200 });
  const [reusable = ""] = await seedLinks(sql, merchant, { isReusable: true, amountUnits: AMOUNT });
  expect(await post(reusable, payment)).toMatchObject({ status: 409, error: "NONCE_USED" });
  expect(await sql`select from payment_links where parent_id = ${reusable}`).toHaveLength(0);
}, 120_000);

test("an authorization executed by another transaction does not count towards its payer's limit, at any link", async () => {
  const { payer, payment } = await newPayer();
  await broadcastAsStranger(world.chain.rpcUrl, payment);
  const pause = openPauses();
  while ((await sql`select from transfers where authorization_nonce = ${payment.nonce}`).length === 0)
    await pause();
  const shown = await newLink();
  for (let replay = 0; replay <= LIMIT; replay++) {
    expect(await post(shown, payment)).toMatchObject({ status: 409, error: "NONCE_USED" });
    expect(await post(await newLink(), payment)).toMatchObject({ status: 409, error: "NONCE_USED" });
  }
  expect(await post(await newLink(), await sign(payer))).toMatchObject({ status: 200 });
}, 120_000);

test("error: RATE_LIMITED for a payer's eleventh new authorization in a minute", async () => {
  const payer = makePayer();
  const attempts = Array.from({ length: LIMIT }, async () => post(await newLink(), await sign(payer)));
  for (const attempt of await Promise.all(attempts))
    expect(attempt).toMatchObject({ error: "INSUFFICIENT_FUNDS" });
  expect(await post(await newLink(), await sign(payer))).toMatchObject({ status: 429 });
}, 120_000);
