/** Settings of a server, database or role under which the service must work as under Postgres' own: managed services and installers set some. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { migrate } from "../../db/postgres/migrate.ts";
import { SESSION_OPTIONS, SESSION_SETTINGS } from "../../db/postgres/session-settings.ts";
import { QueuePool } from "../../worker/jobs/queue-pool.ts";
import { createEmptyDatabase, TEST_POOL, type TestDatabase } from "../support/postgres.ts";

const FOREIGN = {
  DateStyle: "German",
  IntervalStyle: "sql_standard",
  TimeZone: "Pacific/Auckland",
  bytea_output: "escape",
  default_transaction_isolation: "serializable",
};

let db: TestDatabase;
let sql: Sql;

beforeAll(async () => {
  db = await createEmptyDatabase();
  const admin = openDatabase(db.url, TEST_POOL);
  for (const [name, value] of Object.entries(FOREIGN))
    await admin.unsafe(`alter database ${db.name} set ${name} = '${value}'`);
  await admin.end({ timeout: 1 });
  sql = openDatabase(db.url, TEST_POOL);
}, 60_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

test("a database with settings of its own is migrated, and gives dates, bytes and days as any other", async () => {
  expect((await migrate(db.url)).length).toBeGreaterThan(1);
  const [row] = await sql<Record<string, unknown>[]>`
    select
      timestamptz '2026-03-04T23:30:00Z' as time,
      (timestamptz '2026-03-04T23:30:00Z')::date::text as day,
      '\\x00ff5c61'::bytea as tx_hash,
      interval '1 day 2 hours'::text as span`;
  expect(row).toEqual({
    ...{ time: new Date("2026-03-04T23:30:00Z"), day: "2026-03-04" },
    ...{ txHash: "0x00ff5c61", span: "1 day 02:00:00" },
  });
}, 60_000);

test("a transaction sees what another one has committed meanwhile, and updates it", async () => {
  await sql`create table counted (n int)`;
  await sql`insert into counted values (0)`;
  await sql.begin(async (tx) => {
    expect([...(await tx`select n from counted`)]).toEqual([{ n: 0 }]);
    await sql`update counted set n = 1`;
    // serializable: "could not serialize access due to concurrent update"
    expect([...(await tx`update counted set n = n + 1 returning n`)]).toEqual([{ n: 2 }]);
  });
});

test("connections of the job queue have the same settings", async () => {
  const pool = new QueuePool({ connectionString: db.url, max: 1, options: SESSION_OPTIONS });
  try {
    for (const [name, value] of Object.entries(SESSION_SETTINGS)) {
      const { rows } = await pool.query<{ value: string }>("select current_setting($1) as value", [name]);
      expect([name, rows[0]?.value]).toEqual([name, value]);
    }
    const { rows } = await pool.query<{ time: Date }>("select timestamptz '2026-03-04T23:30:00Z' as time");
    expect(rows[0]?.time).toEqual(new Date("2026-03-04T23:30:00Z"));
  } finally {
    await pool.end();
  }
});
