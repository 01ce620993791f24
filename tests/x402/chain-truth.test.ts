/** A transfer on the chain settles a link, whoever sent the transaction. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makePayer, type SignedPayment, shapeA, signPayment, standardV1 } from "../support/payer.ts";
import { type SeededMerchant, seedLink, seedMerchant } from "../support/seed.ts";
import { broadcastAsStranger, cancelAuthorization } from "../support/stranger.ts";
import { PATIENT_ENV, startWorld, type World } from "../support/world.ts";

const WAIT_MS = 90_000;
let world: World;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  world = await startWorld({ env: PATIENT_ENV });
  sql = world.sql;
}, 120_000);

afterAll(() => world?.stop());

let lastAmount = 1_000_000n;
/** An amount no other link of these tests has. */
function nextAmount(): bigint {
  lastAmount += 1n;
  return lastAmount;
}

async function prepare(links = 1) {
  merchant = await seedMerchant(sql);
  const amountUnits = nextAmount();
  const linkIds: string[] = [];
  for (let index = 0; index < links; index++) linkIds.push(await seedLink(sql, merchant, { amountUnits }));
  const payer = makePayer();
  await fundUsdc(world.chain.rpcUrl, payer.address, amountUnits * 2n);
  const payment = await signPayment(payer, { to: merchant.address, amountUnits });
  return { linkId: linkIds[0] ?? "", otherId: linkIds[1] ?? "", payer, payment };
}

async function post(linkId: string, payment: SignedPayment) {
  const response = await fetch(`${world.baseUrl}/v1/x402/${linkId}/pay`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(shapeA(payment)),
  });
  const body = (await response.json()) as { success: boolean; error: string | null; txHash: string | null };
  return { status: response.status, body };
}

async function statusOf(linkId: string): Promise<string | undefined> {
  const [row] = await sql<{ status: string }[]>`select status from payment_links where id = ${linkId}`;
  return row?.status;
}

async function waitForStatus(linkId: string, wanted: string): Promise<void> {
  const deadline = Date.now() + WAIT_MS;
  while ((await statusOf(linkId)) !== wanted) {
    if (Date.now() > deadline) throw new Error(`${linkId} is ${await statusOf(linkId)}, not ${wanted}`);
    await Bun.sleep(20);
  }
}

/** Blocks the indexer has read; waits until it is at the chain's head. */
async function waitForIndexer(): Promise<void> {
  const response = await fetch(world.chain.rpcUrl, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "eth_blockNumber", params: [] }),
  });
  const head = BigInt(((await response.json()) as { result: string }).result);
  const deadline = Date.now() + WAIT_MS;
  for (;;) {
    const [row] = await sql<{ number: bigint }[]>`select number from cursors`;
    if (row && row.number >= head) return;
    if (Date.now() > deadline) throw new Error(`the indexer is at ${row?.number}, the head is ${head}`);
    await Bun.sleep(20);
  }
}

describe("another sender broadcasts the authorization", () => {
  test("an authorization broadcast before it is submitted pays the link, and the payer gets its hash", async () => {
    const { linkId, payment } = await prepare();
    const txHash = await broadcastAsStranger(world.chain.rpcUrl, payment);
    await waitForStatus(linkId, "PAID");
    const { status, body } = await post(linkId, payment);
    expect(status).toBe(409);
    expect(body).toMatchObject({ success: false, error: "NONCE_USED", txHash });
    const header = Buffer.from(JSON.stringify(standardV1(payment))).toString("base64");
    const byHeader = await fetch(`${world.baseUrl}/v1/x402/${linkId}`, { headers: { "x-payment": header } });
    expect(byHeader.status).toBe(200);
    expect(await byHeader.json()).toMatchObject({ success: true, txHash });
  });

  test("an authorization broadcast before it is submitted pays neither of two links that fit: it is already public", async () => {
    const { linkId, otherId, payment } = await prepare(2);
    const txHash = await broadcastAsStranger(world.chain.rpcUrl, payment);
    await waitForIndexer();
    expect([await statusOf(linkId), await statusOf(otherId)]).toEqual(["ACTIVE", "ACTIVE"]);
    const { status, body } = await post(linkId, payment);
    expect({ status, ...body }).toMatchObject({ status: 409, success: false, error: "NONCE_USED" });
    const again = await post(otherId, payment);
    expect([again.status, again.body.error]).toEqual([409, "NONCE_USED"]);
    await waitForStatus(linkId, "ACTIVE");
    await waitForStatus(otherId, "ACTIVE");
    const history = await sql<{ type: string; status: string; linkId: string | null }[]>`
      select type, status, link_id from transactions where tx_hash = ${txHash}`;
    expect([...history]).toEqual([{ type: "RECEIVE", status: "CONFIRMED", linkId: null }]);
  });

  test("an authorization broadcast while we relay it is one transfer, the link PAID, and its payer gets the hash", async () => {
    for (let round = 0; round < 5; round++) {
      const { linkId, payment } = await prepare();
      const [answer] = await Promise.all([
        post(linkId, payment),
        broadcastAsStranger(world.chain.rpcUrl, payment).catch(() => undefined),
      ]);
      const hasOutcome = answer.status === 200 || (answer.status === 409 && answer.body.txHash !== null);
      expect({ hasOutcome, answer }).toMatchObject({ hasOutcome: true });
      await waitForStatus(linkId, "PAID");
      const rows = await sql`select id from transfers where link_id = ${linkId} and status <> 'ORPHANED'`;
      expect(rows.length).toBe(1);
    }
  });
});

describe("the payer cancels the authorization", () => {
  test("error: NONCE_USED for a cancelled authorization, and the link is released", async () => {
    const { linkId, payer, payment } = await prepare();
    await cancelAuthorization(world.chain.rpcUrl, payer, payment.nonce);
    const { status, body } = await post(linkId, payment);
    expect({ status, ...body }).toMatchObject({
      status: 409,
      success: false,
      error: "NONCE_USED",
      txHash: null,
    });
    expect(await statusOf(linkId)).toBe("ACTIVE");
    const [row] = await sql<{ state: string; reason: string }[]>`
      select state, reason from payments where link_id = ${linkId}`;
    expect(row).toEqual({ state: "FAILED", reason: "NONCE_USED" });
  });

  test("another payer can pay after a cancelled authorization was refused", async () => {
    const { linkId, payer, payment } = await prepare();
    await cancelAuthorization(world.chain.rpcUrl, payer, payment.nonce);
    expect((await post(linkId, payment)).status).toBe(409);
    const other = makePayer();
    await fundUsdc(world.chain.rpcUrl, other.address, BigInt(payment.value));
    const second = await signPayment(other, { to: merchant.address, amountUnits: BigInt(payment.value) });
    expect((await post(linkId, second)).status).toBe(200);
    expect(await statusOf(linkId)).toBe("PAID");
  });
});
