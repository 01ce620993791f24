/** A link that is created while a reorganisation sets the indexer's cursor back may be paid in every block of the new branch. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { orphanBlocksAbove } from "../../db/ledger/orphan-blocks.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { openClient } from "../support/http-client.ts";
import { makePayer, shapeA, signPayment } from "../support/payer.ts";
import { type Merchant, signUp } from "../support/sign-up.ts";
import { untilBlocked } from "../support/until-blocked.ts";

setDefaultTimeout(120_000);
const NETWORK = "base-sepolia";
const UNITS = 5_000_000n;
let world: ApiWorld;
let merchant: Merchant;
beforeAll(async () => {
  world = await startApiWorld({ env: { PAY_WAIT_MS: "100" } });
  merchant = await signUp(world.baseUrl);
});
afterAll(() => world?.stop());

const TERMS = { amount: 5, description: "Coffee", expiresInHours: 24 };
const anybody = () => openClient(world.baseUrl);
async function makeLink(more: object = {}): Promise<string> {
  const { status, body } = await merchant.client.post("/v1/payment-links", { ...TERMS, ...more });
  expect(status).toBe(201);
  return body.id;
}

/** The newest link's block, where the cursor is set back to 77 while what makes the link is not committed yet. */
async function createdBlockOf(make: () => Promise<unknown>): Promise<number> {
  await world.sql`delete from cursors`;
  await world.sql`
    insert into cursors (network, number, hash, head_number)
    values (${NETWORK}, 83, ${`0x${"83".repeat(32)}`}, 83)`;
  let made: Promise<unknown> = Promise.resolve();
  await world.sql.begin(async (holder) => {
    // the link's insert waits for this once it has read the cursor, in a trigger
    await holder`lock table link_counts in exclusive mode`;
    made = make();
    await untilBlocked(world.sql);
    await world.sql.begin(async (tx) => {
      await tx`update cursors set number = 77`;
      await orphanBlocksAbove(tx, { network: NETWORK, ancestor: 77, claimLeaseS: 60 });
    });
  });
  await made;
  const [row] = await world.sql<{ createdBlock: bigint }[]>`
    select created_block from payment_links order by created_at desc limit 1`;
  return Number(row?.createdBlock);
}

test("created by its merchant", async () => {
  expect(await createdBlockOf(() => makeLink())).toBe(77);
});

test("a use of a reusable link, opened by its payer", async () => {
  const linkId = await makeLink({ maxPayments: null });
  const open = () => anybody().post(`/api/v1/public/payment-links/${linkId}/uses`, {});
  expect(await createdBlockOf(async () => expect((await open()).status).toBe(201))).toBe(77);
});

test("a use of a reusable link, opened by its first payment", async () => {
  const linkId = await makeLink({ maxPayments: null });
  const payer = makePayer();
  await fundUsdc(world.chainOf(NETWORK).rpcUrl, [payer.address], UNITS);
  const to = merchant.walletAddress as `0x${string}`;
  const payment = await signPayment(payer, { to, amountUnits: UNITS });
  const pay = () => anybody().post(`/v1/x402/${linkId}/pay`, shapeA(payment));
  expect(await createdBlockOf(async () => expect((await pay()).status).toBe(202))).toBe(77);
});
