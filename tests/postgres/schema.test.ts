/** The migrations are the truth; the schema that types our rows says the same. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { getTableColumns, getTableName } from "drizzle-orm";
import type { PgTable } from "drizzle-orm/pg-core";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { migrate } from "../../db/postgres/migrate.ts";
import * as schema from "../../db/schema.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const tables: PgTable[] = Object.values(schema);
let db: TestDatabase;
let sql: Sql;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
}, 60_000);

afterAll(async () => {
  await sql?.end();
  await db?.drop();
});

describe("db/schema.ts", () => {
  for (const table of tables) {
    test(`${getTableName(table)}: every column is in the database, nullable where the database says so`, async () => {
      const rows = await sql<{ columnName: string; isNullable: "YES" | "NO" }[]>`
        select column_name, is_nullable
        from information_schema.columns
        where table_schema = 'public' and table_name = ${getTableName(table)}`;
      const inDatabase = new Map(rows.map((row) => [row.columnName, row.isNullable === "NO"]));
      const columns = Object.values(getTableColumns(table));
      expect(columns.length).toBeGreaterThan(0);
      const wrong = columns.filter((column) => inDatabase.get(column.name) !== column.notNull);
      expect(wrong.map((column) => column.name)).toEqual([]);
    });
  }
});

describe("migrations", () => {
  test("applied again: nothing to do, also when two processes start at once", async () => {
    expect(await Promise.all([migrate(db.url), migrate(db.url)])).toEqual([[], []]);
  });

  test("two processes on an empty database: each file is applied once", async () => {
    const name = `${db.name}_empty`;
    await sql.unsafe(`create database ${name} template template0`);
    const url = new URL(db.url);
    url.pathname = `/${name}`;
    try {
      const applied = await Promise.all([migrate(url.href), migrate(url.href)]);
      const files = applied.flat();
      expect(files.length).toBeGreaterThan(10);
      expect(new Set(files).size).toBe(files.length);
    } finally {
      // not by force: a connection that a migration is just closing would fail by it, and nobody would listen
      await sql.unsafe(`drop database ${name}`);
    }
  });

  test("error: a file that was changed after it was applied", async () => {
    await sql`update migrations set sha256 = 'other' where name = '0001_accounts.sql'`;
    expect(migrate(db.url)).rejects.toThrow("0001_accounts.sql was changed");
  });
});
