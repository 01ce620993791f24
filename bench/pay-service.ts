/** The whole service on a chain and a database of its own: HTTP, Postgres, relayer, chain, indexer, and back. */
import { loadavg } from "node:os";
import type { Sql } from "../db/postgres/client.ts";
import { fundUsdc } from "../local/chain/usdc.ts";
import { SERVICE_KINDS } from "../local/service-env.ts";
import { makePayer, shapeA, signPayment } from "../tests/support/payer.ts";
import { seedLinks, seedMerchant } from "../tests/support/seed.ts";
import { type ProcessName, startWorld, type World } from "../tests/support/world.ts";
import { cpuMilliseconds, pidsOfDatabase } from "./cpu-time.ts";
import {
  AMOUNT,
  type PayCase,
  payAll,
  type Request,
  rowOf,
  VALID_FOR_S,
  WARM_UP_CONCURRENCY,
} from "./pay-load.ts";
import { percentile, type Row, round } from "./report.ts";

/** For each api process: processes live long, so figures are taken once code is compiled and statements are planned. */
const WARM_UP_PAYMENTS = 3_000;

/** Before a shape is measured. */
export const warmUpOf = (shape: Shape): number => WARM_UP_PAYMENTS * Number(shape.split(".")[0]);

const ENV = { LOG_LEVEL: "warn", RATE_LIMITS: "0" };
const RECEIPT_POLL_MS = 200;
const RECEIPT_POLLS_MAX = 50;

/** How many of each: "4.4.2" is four api, four workers, two indexers. */
export type Shape = `${number}.${number}.${number}`;

type Order = Request & { linkId: string };

export async function measureService(
  load: PayCase,
  { shape = "1.1.1", warmUp = warmUpOf(shape) }: { shape?: Shape; warmUp?: number } = {},
): Promise<Row> {
  const service = await openService({ shape, warmUp, blockTimeS: load.blockTimeS });
  try {
    return await service.measure(load);
  } finally {
    await service.stop();
  }
}

/** A service that runs until it is stopped and can be measured any number of times. */
export type OpenService = { measure: (load: PayCase) => Promise<Row>; stop: () => Promise<void> };

export async function openService({
  shape,
  warmUp,
  blockTimeS,
}: {
  shape: Shape;
  warmUp: number;
  blockTimeS: number;
}): Promise<OpenService> {
  const processes = namesOf(shape);
  const world = await startWorld({ processes, blockTimeS, skipsStateRoots: true, env: ENV });
  const who = shape === "1.1.1" ? "the service" : `the service, ${shape}`;
  const measure = async (load: PayCase): Promise<Row> => {
    const { cpuMs, postgresMs, run, orders } = await measureWindow(world, processes, load);
    const { perPayment, perTransaction } = await gasOf(world.sql, orders);
    return rowOf(load, { who, cpuMs, postgresMs, run, gas: perPayment, perTransaction, warmUp });
  };
  try {
    await warm(world, processes, warmUp);
    return { measure, stop: world.stop };
  } catch (error) {
    await world.stop();
    throw error;
  }
}

/** Until code is compiled and every connection has planned its statements with statistics, which autovacuum gathers within a database's first minute. */
async function warm(world: World, processes: readonly ProcessName[], payments: number): Promise<void> {
  const planned = Math.ceil(payments / 3);
  for (const count of [payments - planned, planned]) {
    const orders = await makeOrders(world, processes, count);
    if (count === planned) await world.sql`analyze`;
    await payAll(orders, { concurrency: WARM_UP_CONCURRENCY, readHash });
  }
}

/** One service from its start, window after window, to show the cost of compilation and of a growing database. */
export async function* measureSustained(load: PayCase, windows: number): AsyncGenerator<Row> {
  const processes = namesOf("1.1.1");
  const world = await startWorld({
    processes,
    blockTimeS: load.blockTimeS,
    skipsStateRoots: true,
    env: ENV,
  });
  try {
    for (let window = 0; window < windows; window++) {
      // as autovacuum does within a minute; it never gathers statistics of tables that are still empty
      if (window > 0) await world.sql`analyze`;
      const { cpuMs, postgresMs, chainMs, run } = await measureWindow(world, processes, load);
      yield {
        "payments before": window * load.payments,
        concurrency: load.concurrency,
        "CPU ms/payment": cpuMs,
        "Postgres ms": postgresMs,
        "chain's CPU ms": chainMs,
        "payments/s": Math.round(run.hashes.length / run.seconds),
        "p50 ms": percentile(run.timesMs, 0.5),
        "p99 ms": percentile(run.timesMs, 0.99),
        "max ms": percentile(run.timesMs, 1),
        failures: run.failures,
        load: Math.round((loadavg()[0] ?? 0) * 10) / 10,
      };
    }
  } finally {
    await world.stop();
  }
}

async function measureWindow(world: World, processes: readonly ProcessName[], load: PayCase) {
  const orders = await makeOrders(world, processes, load.payments);
  const before = cpuOf(world, processes);
  const run = await payAll(orders, { concurrency: load.concurrency, readHash });
  const after = cpuOf(world, processes);
  const each = (total: number) => round(total / load.payments);
  return {
    ...{ orders, run },
    cpuMs: each(after.processes + after.postgres - before.processes - before.postgres),
    postgresMs: each(after.postgres - before.postgres),
    chainMs: each(after.chain - before.chain),
  };
}

function namesOf(shape: Shape): ProcessName[] {
  const counts = shape.split(".").map(Number);
  return SERVICE_KINDS.flatMap((kind, place) =>
    Array.from({ length: counts[place] ?? 0 }, (_, n): ProcessName => (n === 0 ? kind : `${kind}-${n + 1}`)),
  );
}

function readHash(answer: { success?: boolean; settled?: boolean; txHash?: string }): string | undefined {
  return answer.success && answer.settled ? answer.txHash : undefined;
}

function cpuOf(world: World, names: readonly ProcessName[]) {
  return {
    processes: cpuMilliseconds(names.map((name) => world.pidOf(name))),
    postgres: cpuMilliseconds(pidsOfDatabase(world.db.name)),
    chain: cpuMilliseconds([world.chain.pid]),
  };
}

/** Distinct links of one merchant, each with a funded payer of its own and a signed body. */
async function makeOrders(
  { sql, chain, baseUrlOf }: World,
  names: readonly ProcessName[],
  count: number,
): Promise<Order[]> {
  const urls = names.filter((name) => name.startsWith("api")).map(baseUrlOf);
  const merchant = await seedMerchant(sql);
  await fundUsdc(chain.rpcUrl, merchant.address, 1n);
  const linkIds = await seedLinks(sql, merchant, { count, amountUnits: AMOUNT });
  const payers = linkIds.map(() => makePayer());
  const addresses = payers.map((payer) => payer.address);
  await fundUsdc(chain.rpcUrl, addresses, AMOUNT * 2n);
  const validBefore = Math.floor(Date.now() / 1000) + VALID_FOR_S;
  return Promise.all(
    payers.map(async (payer, index) => {
      const payment = await signPayment(payer, { to: merchant.address, amountUnits: AMOUNT, validBefore });
      const linkId = linkIds[index] ?? "";
      return {
        linkId,
        url: `${urls[index % urls.length]}/v1/x402/${linkId}/pay`,
        body: JSON.stringify(shapeA(payment)),
      };
    }),
  );
}

/** From the receipts recorded by the worker; waits until the last one is there. */
async function gasOf(sql: Sql, orders: readonly Order[]) {
  const ids = orders.map((order) => order.linkId);
  for (let poll = 0; poll < RECEIPT_POLLS_MAX; poll++) {
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
    await Bun.sleep(RECEIPT_POLL_MS);
  }
  return { perPayment: 0, perTransaction: 0 };
}
