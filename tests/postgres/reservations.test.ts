/** Reserved connections while connections break: each reservation ends, with a connection or an error, and none is forgotten. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Sql } from "../../db/postgres/client.ts";
import { type BreakablePool, openBreakablePool } from "../support/breakable-pool.ts";

const POOL = 3;
const WORKERS = 5;
const CUTS = 60;
let pool: BreakablePool;
let sql: Sql;
let killer: Sql;

beforeAll(async () => {
  pool = await openBreakablePool(POOL);
  ({ sql, killer } = pool);
});
afterAll(() => pool?.stop());

async function reserveAndAsk(): Promise<void> {
  const connection = await sql.reserve();
  try {
    const [row] = await connection`select 7 as answer`;
    expect(row).toEqual({ answer: 7 });
  } finally {
    connection.release();
  }
}

async function pidsOfVictims(query = "%"): Promise<number[]> {
  const rows = await killer<{ pid: number }[]>`
    select pid from pg_stat_activity
    where datname = current_database() and application_name = 'victim' and query like ${query}`;
  return rows.map(({ pid }) => pid);
}

/** All of them, and waits until they are gone. */
async function cut(pids: readonly number[]): Promise<void> {
  for (const pid of pids) await killer`select pg_terminate_backend(${pid}, 5000)`;
}

test("behavior: a reservation waiting for a connection gets it, even if another connection is lost meanwhile", async () => {
  const sleepers = Array.from({ length: POOL }, () =>
    sql`select pg_sleep(30)`.then(
      () => "slept",
      () => "cut",
    ),
  );
  // asleep, not only connected: one that is cut while it connects does so again by itself
  const findSleeping = () => pidsOfVictims("select pg_sleep(30)");
  while ((await findSleeping()).length < POOL) await Bun.sleep(5);
  const [first = 0, ...others] = await findSleeping();
  await cut([first]);
  expect(await Promise.race(sleepers)).toBe("cut");
  // its connection is being opened again, after the pause that follows a loss
  const reserved = reserveAndAsk();
  await cut(others);
  await reserved;
  expect(await Promise.all(sleepers)).toEqual(sleepers.map(() => "cut"));
}, 120_000);

test("behavior: connections cut at random moments: reservations, transactions and statements all end", async () => {
  let isOver = false;
  const kinds = [
    reserveAndAsk,
    () => sql.begin((tx) => tx`select pg_sleep(0.001)`.then(() => undefined)),
    () => sql`select pg_sleep(0.001)`.then(() => undefined),
  ];
  const counts = kinds.map(() => 0);
  const workers = kinds.flatMap((work, kind) =>
    Array.from({ length: WORKERS }, async () => {
      while (!isOver) {
        try {
          await work();
          counts[kind] = (counts[kind] ?? 0) + 1;
        } catch (error) {
          expect(["CONNECTION_CLOSED", "57P01", "ECONNRESET", "EPIPE"]).toContain(
            (error as { code?: string }).code ?? String(error),
          );
        }
      }
    }),
  );
  for (let round = 0; round < CUTS || counts.some((count) => count === 0); round++) {
    const pids = await pidsOfVictims();
    const victim = pids[Math.floor(Math.random() * pids.length)];
    if (victim !== undefined) await cut([victim]);
    await Bun.sleep(Math.random() * 20);
  }
  isOver = true;
  await Promise.all(workers);
}, 120_000);
