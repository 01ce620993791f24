/** A use of a reusable link that is lost while its payment is being stored, as by a failover to a standby that lagged: it is opened again, and paid. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Sql, Tx } from "../../db/postgres/client.ts";
import { fundUsdc } from "../../local/chain/usdc.ts";
import { makePayer, type SignedPayment, shapeA, signPayment } from "../support/payer.ts";
import { waitFor } from "../support/relay-lab.ts";
import { type SeededMerchant, seedLinks, seedMerchant } from "../support/seed.ts";
import { startWorld, type World } from "../support/world.ts";

const AMOUNT = 1_250_000n;
let world: World;
let sql: Sql;
let merchant: SeededMerchant;

beforeAll(async () => {
  world = await startWorld();
  sql = world.sql;
  merchant = await seedMerchant(sql);
}, 120_000);
afterAll(() => world?.stop());

async function newReusable(): Promise<string> {
  const [id = ""] = await seedLinks(sql, merchant, { amountUnits: AMOUNT, isReusable: true });
  return id;
}

async function pay(linkId: string, payment: SignedPayment) {
  const response = await fetch(`${world.baseUrl}/v1/x402/${linkId}/pay`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(shapeA(payment)),
  });
  const { success, error } = (await response.json()) as { success: boolean; error: string | null };
  return { status: response.status, success, error };
}

const usesOf = (tx: Tx, parentId: string) => tx<{ id: string; status: string }[]>`
  select id, status
  from payment_links
  where parent_id = ${parentId}`;

/** Transactions of the API that wait for a lock, by what they wait to do. */
function untilWaiting(statement: string) {
  return waitFor(`the API to wait with ${statement}`, async () => {
    const rows = await sql`
      select from pg_stat_activity
      where datname = current_database()
        and application_name like 'api%'
        and wait_event_type = 'Lock'
        and query ilike ${`%${statement}%`}`;
    return rows.length > 0;
  });
}

async function lose(tx: Tx, parentId: string): Promise<void> {
  const ids = (await usesOf(tx, parentId)).map(({ id }) => id);
  expect(ids).toHaveLength(1);
  await tx`delete from transactions where link_id = any(${ids}::text[])`;
  await tx`delete from payments where link_id = any(${ids}::text[])`;
  await tx`delete from payment_links where id = any(${ids}::text[])`;
}

test("a use that is lost before its payment is stored is opened again and paid", async () => {
  const parentId = await newReusable();
  const payer = makePayer();
  const payment = await signPayment(payer, { to: merchant.address, amountUnits: AMOUNT });
  expect(await pay(parentId, payment)).toMatchObject({ status: 422, error: "INSUFFICIENT_FUNDS" });
  await fundUsdc(world.chain.rpcUrl, payer.address, AMOUNT);
  const paying = await sql.begin(async (tx) => {
    // reads go on, the payment's transaction waits to lock its link
    await tx`lock table payment_links in exclusive mode`;
    const answer = pay(parentId, payment);
    await untilWaiting("for update");
    await lose(tx, parentId);
    return { answer };
  });
  expect(await paying.answer).toEqual({ status: 200, success: true, error: null });
  expect(await usesOf(sql, parentId)).toMatchObject([{ status: "PAID" }]);
}, 120_000);

/** Pays a use that is lost between the commits that open it and that store its payment. */
async function payLosing(parentId: string, payment: SignedPayment) {
  let losing: Promise<void> | undefined;
  const paying = await sql.begin(async (tx) => {
    await tx`lock table payment_links in share mode`;
    const answer = pay(parentId, payment);
    await untilWaiting("insert into payment_links");
    // is next, when the use has been committed
    losing = sql.begin(async (next) => {
      await next`lock table payment_links in exclusive mode`;
      await untilWaiting("update payment_links link");
      await lose(next, parentId);
    });
    await waitFor("the loss to be next", async () => {
      const rows = await sql`
        select from pg_locks
        join pg_class on pg_class.oid = pg_locks.relation and pg_class.relname = 'payment_links'
        where mode = 'ExclusiveLock' and not granted`;
      return rows.length > 0;
    });
    return { answer };
  });
  await losing;
  return paying.answer;
}

async function signFunded(): Promise<SignedPayment> {
  const payer = makePayer();
  await fundUsdc(world.chain.rpcUrl, payer.address, AMOUNT);
  return signPayment(payer, { to: merchant.address, amountUnits: AMOUNT });
}

test("a use that is lost as soon as it is opened is opened again and paid", async () => {
  const parentId = await newReusable();
  const answer = await payLosing(parentId, await signFunded());
  expect(answer).toEqual({ status: 200, success: true, error: null });
  expect(await usesOf(sql, parentId)).toMatchObject([{ status: "PAID" }]);
}, 120_000);

test("once its payment is stored, no answer says that nothing was", async () => {
  const parentId = await newReusable();
  const payment = await signFunded();
  await world.kill("worker");
  expect(await payLosing(parentId, payment)).toMatchObject({ status: 202 });
  expect(await usesOf(sql, parentId)).toMatchObject([{ status: "PENDING" }]);
  await world.start("worker");
  expect(await pay(parentId, payment)).toMatchObject({ success: true });
}, 120_000);
