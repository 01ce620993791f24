/**
 * Payments through the whole service: HTTP, Postgres, relayer, chain, indexer, and back. Closed loop: each of `concurrency` payers
 * pays its own link with its own signed authorization and starts the next after the response. Signing is not measured.
 * Then the reference facilitator on the same kind of chain, without HTTP and database.
 */
import { openDatabase, type Sql } from "../db/postgres/client.ts";
import { fundUsdc } from "../local/chain/usdc.ts";
import { makePayer, shapeA, signPayment } from "../tests/support/payer.ts";
import { seedLinks, seedMerchant } from "../tests/support/seed.ts";
import { startWorld, type World } from "../tests/support/world.ts";
import { measureReference } from "./reference-facilitator.ts";
import { describeMachine, percentile, printTable, type Row } from "./report.ts";

const AMOUNT = 10_000n;
const WARM_UP = 20;
/** Payments of a run: [block time in s, concurrency, payments]. */
const RUNS: [number, number, number][] = [
  [0, 1, 100],
  [0, 16, 1_000],
  [0, 64, 3_000],
  [0, 256, 3_000],
  [1, 1, 8],
  [1, 16, 128],
  [1, 64, 512],
  [1, 300, 1_500],
];

/** The reference on the same machine, run afterwards: fewer payments, as it is slower. */
const REFERENCE_RUNS: [number, number, number][] = [
  [0, 16, 200],
  [0, 64, 300],
  [1, 16, 48],
  [1, 64, 192],
];

type Order = { linkId: string; body: string };

export async function run(): Promise<void> {
  console.log(JSON.stringify({ bench: "pay", machine: describeMachine() }));
  const rows: Row[] = [];
  for (const blockTimeS of [0, 1]) {
    const world = await startWorld({ blockTimeS, env: { LOG_LEVEL: "warn", RATE_LIMITS: "0" } });
    const sql = openDatabase(world.db.url, { name: "bench", maxConnections: 4 });
    try {
      await payAll(world, await makeOrders(world, sql, WARM_UP), 8);
      for (const [, concurrency, payments] of RUNS.filter(([time]) => time === blockTimeS)) {
        const row = await measure(world, sql, { blockTimeS, concurrency, payments });
        console.log(JSON.stringify(row));
        rows.push(row);
      }
    } finally {
      await sql.end();
      await world.stop();
    }
  }
  for (const [blockTimeS, concurrency, payments] of REFERENCE_RUNS) {
    for (const hasNonceManager of [false, true]) {
      const row = await measureReference({ blockTimeS, concurrency, payments, hasNonceManager });
      console.log(JSON.stringify(row));
      rows.push(row);
    }
  }
  printTable(rows);
}

async function measure(
  world: World,
  sql: Sql,
  load: { blockTimeS: number; concurrency: number; payments: number },
): Promise<Row> {
  const orders = await makeOrders(world, sql, load.payments);
  // as autovacuum does within the first minute of a database's life
  await sql`analyze`;
  const startedMs = performance.now();
  const answers = await payAll(world, orders, load.concurrency);
  const seconds = (performance.now() - startedMs) / 1000;
  const times = answers.map((answer) => answer.ms).toSorted((a, b) => a - b);
  const gas = await gasOf(sql, orders);
  return {
    bench: "pay",
    who: "ours, through HTTP",
    "block s": load.blockTimeS,
    concurrency: load.concurrency,
    payments: load.payments,
    "payments/s": Math.round((load.payments / seconds) * 10) / 10,
    "p50 ms": percentile(times, 0.5),
    "p95 ms": percentile(times, 0.95),
    "p99 ms": percentile(times, 0.99),
    failures: answers.filter((answer) => !answer.settled).length,
    "gas/payment": gas.perPayment,
    "payments/tx": gas.perTransaction,
  };
}

async function payAll(world: World, orders: readonly Order[], concurrency: number) {
  const answers: { ms: number; settled: boolean }[] = [];
  let next = 0;
  const payer = async () => {
    for (let order = orders[next++]; order; order = orders[next++]) {
      const startedMs = performance.now();
      const settled = await payOne(world.baseUrl, order);
      answers.push({ ms: performance.now() - startedMs, settled });
    }
  };
  await Promise.all(Array.from({ length: concurrency }, payer));
  return answers;
}

async function payOne(baseUrl: string, { linkId, body }: Order): Promise<boolean> {
  try {
    const response = await fetch(`${baseUrl}/v1/x402/${linkId}/pay`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    const answer = (await response.json()) as { success: boolean; settled?: boolean };
    return response.status === 200 && answer.success && answer.settled === true;
  } catch {
    return false;
  }
}

/** Distinct links of one merchant, each with a funded payer of its own and a signed body. */
async function makeOrders(world: World, sql: Sql, count: number): Promise<Order[]> {
  const merchant = await seedMerchant(sql);
  await fundUsdc(world.chain.rpcUrl, merchant.address, 1n);
  const linkIds = await seedLinks(sql, merchant, { count, amountUnits: AMOUNT });
  const payers = linkIds.map(() => makePayer());
  await fundUsdc(
    world.chain.rpcUrl,
    payers.map((payer) => payer.address),
    AMOUNT * 2n,
  );
  const validBefore = Math.floor(Date.now() / 1000) + 3_600;
  return Promise.all(
    payers.map(async (payer, index) => {
      const payment = await signPayment(payer, { to: merchant.address, amountUnits: AMOUNT, validBefore });
      return { linkId: linkIds[index] ?? "", body: JSON.stringify(shapeA(payment)) };
    }),
  );
}

/** From the receipts recorded by the worker; waits until the last one is there. */
async function gasOf(sql: Sql, orders: readonly Order[]) {
  const ids = orders.map((order) => order.linkId);
  for (let look = 0; look < 50; look++) {
    const [row] = await sql<{ gas: bigint | null; relays: number; open: number; payments: number }[]>`
      with used as (
        select distinct relay.id, relay.gas_used
        from payments
        join relays relay on relay.id = payments.relay_id
        where payments.link_id = any(${ids}::text[])
      )
      select
        sum(gas_used) as gas,
        count(*)::int as relays,
        count(*) filter (where gas_used is null)::int as open,
        (select count(*)::int from payments where link_id = any(${ids}::text[])) as payments
      from used`;
    if (row && row.open === 0 && row.relays > 0) {
      return {
        perPayment: Math.round(Number(row.gas ?? 0n) / row.payments),
        perTransaction: Math.round((row.payments / row.relays) * 10) / 10,
      };
    }
    await Bun.sleep(200);
  }
  return { perPayment: 0, perTransaction: 0 };
}
