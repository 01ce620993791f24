/** A server that vanishes silently, as in a failover: its connections stay open and nothing arrives any more. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { type DatabaseWay, startDatabaseWay } from "../support/database-way.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const POOL = 2;
const SILENCE_TIMEOUT_S = 1;
let db: TestDatabase;
let way: DatabaseWay;
let sql: Sql;

beforeAll(async () => {
  db = await createTestDatabase();
  way = startDatabaseWay(db.url);
  sql = openDatabase(way.url, { name: "test", maxConnections: POOL, silenceTimeoutS: SILENCE_TIMEOUT_S });
});
afterAll(async () => {
  await sql.end({ timeout: 1 });
  way.stop();
  await db.drop();
});

async function pidsOf(): Promise<number[]> {
  const answers = await Promise.all(
    Array.from(
      { length: POOL },
      () => sql<{ pid: number }[]>`select pg_backend_pid() as pid, pg_sleep(0.05)`,
    ),
  );
  return answers.map(([row]) => row?.pid ?? 0).sort((a, b) => a - b);
}

test("behavior: statements and transactions on its connections fail, and new connections are made", async () => {
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  const { promise: isFrozen, resolve: goOn } = Promise.withResolvers<void>();
  const transaction = sql
    .begin(async (tx) => {
      await tx`select 1`;
      begin();
      await isFrozen;
      await tx`select 2`;
    })
    .then(
      () => "committed",
      (error: { code?: string }) => error.code,
    );
  await Promise.all([begun, sql`select 1`]);
  expect(way.freeze()).toBeGreaterThan(0);
  goOn();
  const alone = await sql`select 3`.then(
    () => "answered",
    (error: { code?: string }) => error.code,
  );
  expect(alone).toBe("CONNECTION_SILENT");
  // it can't be rolled back either
  expect(await transaction).toBe("CONNECTION_CLOSED");
  // one that was given to a connection on its way down fails too, and those after it do not
  const connections = async () => new Set(await pidsOf().catch(() => [])).size;
  for (const deadline = Date.now() + 60_000; (await connections()) < POOL && Date.now() < deadline; );
  expect(await connections()).toBe(POOL);
}, 120_000);

test("behavior: an idle connection without a pending response may be silent indefinitely", async () => {
  const before = await pidsOf();
  const pause = async (tx: Sql | Parameters<Parameters<Sql["begin"]>[1]>[0]) => {
    await tx`select pg_sleep(${SILENCE_TIMEOUT_S / 2})`;
    await Bun.sleep(SILENCE_TIMEOUT_S * 2_000);
    return tx`select 1 as n`;
  };
  expect([...(await pause(sql))]).toEqual([{ n: 1 }]);
  expect([...(await sql.begin((tx) => pause(tx)))]).toEqual([{ n: 1 }]);
  expect(await pidsOf()).toEqual(before);
}, 120_000);

test("behavior: listening continues after longer than that without a notification", async () => {
  const heard: string[] = [];
  await sql.listen("quiet", (payload) => void heard.push(payload));
  await Bun.sleep(SILENCE_TIMEOUT_S * 2_000);
  await sql`select pg_notify('quiet', 'a word')`;
  const deadline = Date.now() + 45_000;
  while (heard.length === 0 && Date.now() < deadline) await Bun.sleep(10);
  expect(heard).toEqual(["a word"]);
}, 120_000);
