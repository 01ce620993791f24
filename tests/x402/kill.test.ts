/** Processes die at the worst moments: every accepted payment still ends PAID, and none is paid twice. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { Sql } from "../../db/postgres/client.ts";
import { fundUsdc, readUsdcBalance } from "../../local/chain/usdc.ts";
import { roundsOf } from "../support/depth.ts";
import { makePayer, shapeA, signPayment } from "../support/payer.ts";
import { type SeededMerchant, seedLinks, seedMerchant } from "../support/seed.ts";
import { type ProcessName, startWorld, type World } from "../support/world.ts";

const PAYMENTS = roundsOf({ few: 40, many: 80 });
/** So that payments run for as long: processes are killed a few times meanwhile. */
const CONCURRENCY = PAYMENTS / 8;
const AMOUNT = 10_000n;
const SETTLE_TIMEOUT_MS = 60_000;

let world: World;
let sql: Sql;

beforeAll(async () => {
  world = await startWorld({ processes: ["api", "api-2", "worker", "worker-2", "indexer", "indexer-2"] });
  sql = world.sql;
}, 120_000);

afterEach(() => world?.startMissing());
afterAll(() => world?.stop());

type Order = { linkId: string; body: string };

async function makeOrders(merchant: SeededMerchant, count: number): Promise<Order[]> {
  const linkIds = await seedLinks(sql, merchant, { count, amountUnits: AMOUNT });
  const payers = linkIds.map(() => makePayer());
  const addresses = payers.map((payer) => payer.address);
  await fundUsdc(world.chain.rpcUrl, addresses, AMOUNT * 3n);
  const validBefore = Math.floor(Date.now() / 1000) + 3_600;
  return Promise.all(
    payers.map(async (payer, index) => {
      const payment = await signPayment(payer, { to: merchant.address, amountUnits: AMOUNT, validBefore });
      return { linkId: linkIds[index] ?? "", body: JSON.stringify(shapeA(payment)) };
    }),
  );
}

/** Pays at the given API; a broken connection is retried with the same body, as a client should. */
async function pay(baseUrl: () => string, order: Order): Promise<number> {
  for (let attempt = 0; attempt < 60; attempt++) {
    try {
      const response = await fetch(`${baseUrl()}/v1/x402/${order.linkId}/pay`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: order.body,
      });
      if (response.status < 500) return response.status;
    } catch {
      // the process was killed while it served this request
    }
    await Bun.sleep(100);
  }
  return 0;
}

async function payAll(orders: readonly Order[], baseUrl: () => string): Promise<number[]> {
  const statuses: number[] = [];
  let next = 0;
  const payer = async () => {
    for (let order = orders[next++]; order; order = orders[next++]) statuses.push(await pay(baseUrl, order));
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, payer));
  return statuses;
}

async function waitUntilAllPaid(orders: readonly Order[]): Promise<Record<string, number>> {
  const ids = orders.map((order) => order.linkId);
  const deadline = Date.now() + SETTLE_TIMEOUT_MS;
  for (;;) {
    const rows = await sql<{ status: string; count: number }[]>`
      select status, count(*)::int as count from payment_links where id = any(${ids}::text[]) group by status`;
    const counts = Object.fromEntries(rows.map((row) => [row.status, row.count]));
    if (counts.PAID === ids.length || Date.now() > deadline) return counts;
    await Bun.sleep(100);
  }
}

async function expectEachPaidOnce(merchant: SeededMerchant, orders: readonly Order[]) {
  const ids = orders.map((order) => order.linkId);
  const balance = await readUsdcBalance(world.chain.rpcUrl, merchant.address);
  expect(balance).toBe(AMOUNT * BigInt(orders.length));
  const [row] = await sql<{ transfers: number; links: number; history: number; sum: bigint }[]>`
    select
      count(*)::int as transfers, count(distinct link_id)::int as links, sum(amount_units) as sum,
      (select count(*)::int from transactions where link_id = any(${ids}::text[]) and status = 'CONFIRMED') as history
    from transfers
    where link_id = any(${ids}::text[]) and pays and status <> 'ORPHANED'`;
  expect(row).toEqual({
    transfers: ids.length,
    links: ids.length,
    history: ids.length,
    sum: AMOUNT * BigInt(ids.length),
  });
}

/** Kills `name` repeatedly while `work` runs, and restarts it each time. */
async function whileKilling<T>(name: ProcessName, work: Promise<T>): Promise<T> {
  let done = false;
  const watched = work.finally(() => {
    done = true;
  });
  while (!done) {
    await Bun.sleep(150 + Math.random() * 350);
    if (done) break;
    await world.kill(name, "SIGKILL");
    await Bun.sleep(Math.random() * 300);
    await world.start(name);
  }
  return watched;
}

describe("kill -9 while payments run", () => {
  for (const name of ["api", "worker", "indexer"] as const) {
    test(`behavior: every payment ends PAID once while the ${name} is killed repeatedly`, async () => {
      const merchant = await seedMerchant(sql);
      const orders = await makeOrders(merchant, PAYMENTS);
      const base = () => world.baseUrlOf(Math.random() < 0.5 ? "api" : "api-2");
      const statuses = await whileKilling(name, payAll(orders, base));
      expect(statuses.filter((status) => ![200, 202, 409].includes(status))).toEqual([]);
      // an accepted one may yet end unsent, until it is repeated
      await payAll(orders, base);
      expect(await waitUntilAllPaid(orders)).toEqual({ PAID: PAYMENTS });
      await expectEachPaidOnce(merchant, orders);
    }, 120_000);
  }

  test("behavior: after both workers are killed their jobs continue", async () => {
    const merchant = await seedMerchant(sql);
    const orders = await makeOrders(merchant, 40);
    const paying = payAll(orders, () => world.baseUrl);
    await Bun.sleep(60);
    await Promise.all([world.kill("worker", "SIGKILL"), world.kill("worker-2", "SIGKILL")]);
    await Promise.all([world.start("worker"), world.start("worker-2")]);
    await paying;
    expect(await waitUntilAllPaid(orders)).toEqual({ PAID: 40 });
    await expectEachPaidOnce(merchant, orders);
    const deadline = Date.now() + SETTLE_TIMEOUT_MS;
    const countStuck = async () => {
      const stuck = await sql`
        select id from graphile_worker._private_jobs where locked_at < now() - interval '10 seconds'`;
      return stuck.length;
    };
    while ((await countStuck()) > 0 && Date.now() < deadline) await Bun.sleep(100);
    expect(await countStuck()).toBe(0);
  }, 120_000);

  test("relayer nonces are used once and without gaps", async () => {
    const rows = await sql<{ relayer: string; relays: number; low: bigint; high: bigint; next: bigint }[]>`
      select
        relay.relayer, count(*)::int as relays, min(nonce) as low, max(nonce) as high, max(lane.next_nonce) as next
      from relays relay
      join relayers lane on lane.network = relay.network and lane.address = relay.relayer
      where relay.state <> 'LOST'
      group by relay.relayer`;
    expect(rows.length).toBeGreaterThan(0);
    for (const row of rows) {
      expect(BigInt(row.relays)).toBe(row.high - row.low + 1n);
      expect(row.next).toBe(row.high + 1n);
    }
  });
});
