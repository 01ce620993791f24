/** Connections to Postgres that break in mid-operation: the operation has ended, the process lives, the pool works as before. */
import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { type BreakablePool, openBreakablePool } from "../support/breakable-pool.ts";

const POOL = 2;
/** More at once than there are connections, so that each of them is used. */
const QUERIES = 6;
const ROUNDS = 4;
let pool: BreakablePool;
let sql: Sql;
let killer: Sql;

beforeAll(async () => {
  pool = await openBreakablePool(POOL);
  ({ sql, killer } = pool);
  await killer`create table notes (text text)`;
});
beforeEach(() => killer`truncate notes`.then(() => undefined));
afterAll(() => pool?.stop());

async function pidOf(connection: Pick<Sql, "unsafe">): Promise<number> {
  const [row] = await connection.unsafe<{ pid: number }[]>("select pg_backend_pid() as pid");
  return row?.pid ?? 0;
}

/** Returns when the backend is gone. */
async function cut(pid: number): Promise<void> {
  await killer`select pg_terminate_backend(${pid}, 5000)`;
}

async function isAsleep(pid: number): Promise<void> {
  for (;;) {
    const [row] = await killer<{ isAsleep: boolean }[]>`
      select exists (select from pg_stat_activity where pid = ${pid} and wait_event = 'PgSleep') as is_asleep`;
    if (row?.isAsleep) return;
  }
}

/** Every connection of the pool answers, again and again. */
async function expectHealthyPool(): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    const answers = await Promise.all(
      Array.from({ length: QUERIES }, (_, index) => sql`select ${index}::int as n`),
    );
    expect(answers.map(([row]) => row?.n)).toEqual(Array.from({ length: QUERIES }, (_, index) => index));
  }
}

test("behavior: a statement in a transaction is cut; the transaction fails, and nothing else", async () => {
  const { promise: started, resolve: start } = Promise.withResolvers<number>();
  const work = sql.begin(async (tx) => {
    start(await pidOf(tx));
    await tx`insert into notes values ('inside')`;
    await tx`select pg_sleep(30)`;
  });
  const ended = work.then(
    () => "committed",
    (error: { code?: string }) => error.code,
  );
  const pid = await started;
  await isAsleep(pid);
  await cut(pid);
  expect(["CONNECTION_CLOSED", "57P01"]).toContain((await ended) ?? "");
  await expectHealthyPool();
  expect(await killer`select * from notes`).toHaveLength(0);
}, 120_000);

test("behavior: statements after the cut run nowhere, especially not outside the transaction", async () => {
  const one = openDatabase(pool.url, { name: "one", maxConnections: 1 });
  const { promise: started, resolve: start } = Promise.withResolvers<number>();
  const { promise: isCut, resolve: goOn } = Promise.withResolvers<void>();
  const { promise: after, resolve: tellAfter } = Promise.withResolvers<string | undefined>();
  const work = one.begin(async (tx) => {
    start(await pidOf(tx));
    await isCut;
    await tx`insert into notes values ('outside')`.then(
      () => tellAfter("stored"),
      (error: { code?: string }) => tellAfter(error.code),
    );
  });
  const ended = work.then(
    () => "committed",
    (error: { code?: string }) => error.code,
  );
  await cut(await started);
  // the pool's only connection is opened again for somebody else
  expect(await one`select 1 as n`.then(([row]) => row?.n)).toBe(1);
  goOn();
  expect(await after).toBe("CONNECTION_CLOSED");
  expect(await ended).toBe("CONNECTION_CLOSED");
  expect(await killer`select * from notes`).toHaveLength(0);
  await one.end({ timeout: 1 });
}, 120_000);

test("behavior: statements that waited for their turn in the transaction end with it", async () => {
  const { promise: started, resolve: start } = Promise.withResolvers<number>();
  const waiting: Promise<string>[] = [];
  const work = sql.begin(async (tx) => {
    start(await pidOf(tx));
    for (let index = 0; index < 150; index++) {
      waiting.push(
        tx`select pg_sleep(30)`.then(
          () => "done",
          () => "failed",
        ),
      );
    }
    await Promise.all(waiting);
  });
  const ended = work.catch(() => "failed");
  const pid = await started;
  await isAsleep(pid);
  await cut(pid);
  expect(await ended).toBe("failed");
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(["failed"]));
  await expectHealthyPool();
}, 120_000);

test("behavior: a reserved connection is cut: it reports that, and releasing it is harmless", async () => {
  const reserved = await sql.reserve();
  await cut(await pidOf(reserved));
  await expectHealthyPool();
  await expect(Promise.resolve(reserved`select 1`)).rejects.toThrow("CONNECTION_CLOSED");
  reserved.release();
  await expectHealthyPool();
}, 120_000);

test("behavior: connections cut at random moments: every response is correct or an error, and then all recovers", async () => {
  let isOver = false;
  const workers = Array.from({ length: QUERIES }, async (_, index) => {
    let committed = 0;
    while (!isOver) {
      try {
        await sql.begin(async (tx) => {
          await tx`insert into notes values (${`before ${index}`})`;
          await tx`select pg_sleep(0.002)`;
          await tx`insert into notes values (${`after ${index}`})`;
        });
        committed += 1;
      } catch (error) {
        expect(["CONNECTION_CLOSED", "57P01", "ECONNRESET"]).toContain(
          (error as { code?: string }).code ?? String(error),
        );
      }
    }
    return committed;
  });
  for (let round = 0; round < 60; round++) {
    await killer`
      select pg_terminate_backend(pid, 1000) from pg_stat_activity
      where datname = current_database() and application_name = 'victim'
      order by random()
      limit 1`;
    await Bun.sleep(10);
  }
  isOver = true;
  const committed = await Promise.all(workers);
  for (const [index, count] of committed.entries()) {
    const rows = await killer<{ text: string; count: number }[]>`
      select text, count(*)::int as count from notes where text like ${`%${index}`} group by text`;
    // a commit whose answer was lost is in, with both of its rows
    expect(new Set(rows.map((row) => row.count)).size).toBeLessThanOrEqual(1);
    expect(rows[0]?.count ?? 0).toBeGreaterThanOrEqual(count);
  }
  await expectHealthyPool();
}, 120_000);

test("behavior: a lost connection is retried within a second, however often the server was unavailable", () => {
  const seconds = [0, 1, 5, 10, 1_000].map((failures) => {
    const { backoff } = sql.options;
    return typeof backoff === "function" ? backoff(failures) : Number.NaN;
  });
  for (const pauseS of seconds) {
    expect(pauseS).toBeGreaterThan(0);
    expect(pauseS).toBeLessThanOrEqual(1);
  }
});
