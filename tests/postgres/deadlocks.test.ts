/** A transaction that Postgres aborts to resolve a deadlock is retried, so that no client of the API gets an error. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { retryDeadlocks } from "../../db/postgres/retry-deadlocks.ts";
import { type ApiWorld, startApiWorld } from "../support/api-world.ts";
import { verifiedUser } from "../support/sign-up.ts";

setDefaultTimeout(120_000);
const DEADLOCK = "40P01";
const ATTEMPTS = 5;
let world: ApiWorld;
beforeAll(async () => {
  world = await startApiWorld();
});
afterAll(() => world?.stop());

const lockUser = (tx: Tx, userId: string) => tx`select from users where id = ${userId} for update`;
const lockSessions = (tx: Tx, userId: string) =>
  tx`select from sessions where user_id = ${userId} for update`;

/** Until another session of this database waits for a lock. */
async function untilWaiting(sql: Sql): Promise<void> {
  for (const endMs = Date.now() + 30_000; Date.now() < endMs; await Bun.sleep(10)) {
    const [row] = await sql<{ waits: boolean }[]>`
      select exists (
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
      ) as waits`;
    if (row?.waits) return;
  }
  throw new Error("no session waits for a lock");
}

test("the aborted transaction is retried, and both commit", async () => {
  const { userId } = await verifiedUser(world.baseUrl);
  const pool = retryDeadlocks(openDatabase(world.databaseUrl, { name: "test", maxConnections: 3 }));
  const [hasSessions, hasUser] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let runs = 0;
  const first = pool.begin(async (tx) => {
    runs += 1;
    await lockSessions(tx, userId);
    hasSessions.resolve();
    await hasUser.promise;
    await lockUser(tx, userId);
    await tx`update users set display_name = 'renamed' where id = ${userId}`;
  });
  const second = pool.begin(async (tx) => {
    runs += 1;
    await lockUser(tx, userId);
    hasUser.resolve();
    await hasSessions.promise;
    await lockSessions(tx, userId);
  });
  await Promise.all([first, second]);
  // on a busy machine Postgres may find another deadlock before the retry, and abort either of them
  expect(runs).toBeGreaterThanOrEqual(3);
  expect(await pool`select from users where id = ${userId} and display_name = 'renamed'`).toHaveLength(1);
  await pool.end();
});

test("error: a transaction that fails in another way is not retried", async () => {
  const pool = retryDeadlocks(openDatabase(world.databaseUrl, { name: "test", maxConnections: 1 }));
  let runs = 0;
  const failing = pool.begin(async (tx) => {
    runs += 1;
    await tx`select 1 / 0`;
  });
  await expect(failing).rejects.toMatchObject({ code: "22012" });
  expect(runs).toBe(1);
  await pool.end();
});

test("a sign-out that is the victim of a deadlock succeeds", async () => {
  for (let attempt = 1; ; attempt++) {
    const { client, userId } = await verifiedUser(world.baseUrl);
    let answer: Promise<{ status: number }> | undefined;
    const locked = world.sql.begin(async (tx) => {
      // this transaction looks for deadlocks late, so the sign-out is the one that finds it and is aborted
      await tx`set local deadlock_timeout = '10s'`;
      await lockUser(tx, userId);
      // it has ended the session, and waits for the user
      answer = client.post("/v1/auth/logout", {});
      await untilWaiting(world.sql);
      await lockSessions(tx, userId);
    });
    const victim = await locked.then(
      () => "the sign-out",
      (error: { code?: string }) => error.code,
    );
    expect((await answer)?.status).toBe(200);
    expect(await world.sql`select from sessions where user_id = ${userId}`).toHaveLength(0);
    if (victim === "the sign-out") break;
    // the sign-out had looked, once, a second after it began to wait: before there was a deadlock
    expect(victim).toBe(DEADLOCK);
    expect(attempt).toBeLessThan(ATTEMPTS);
  }
});
