/** The SQL decides; the schema that types our rows and the committed dump say the same. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { getTableColumns, getTableName } from "drizzle-orm";
import type { PgTable } from "drizzle-orm/pg-core";
import * as documentsSchema from "../../db/documents/schema.ts";
import * as exportsSchema from "../../db/exports/schema.ts";
import * as linksSchema from "../../db/links/schema.ts";
import * as membersSchema from "../../db/members/schema.ts";
import * as noticesSchema from "../../db/notices/schema.ts";
import { BASELINE, readBaseline, withoutComments } from "../../db/postgres/baseline.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { migrate } from "../../db/postgres/migrate.ts";
import * as schema from "../../db/schema.ts";
import * as walletOpsSchema from "../../db/wallet-ops/schema.ts";
import { dumpSchema, SCHEMA_DUMP } from "../support/dump-schema.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const tables: PgTable[] = [
  schema,
  walletOpsSchema,
  noticesSchema,
  linksSchema,
  membersSchema,
  exportsSchema,
  documentsSchema,
].flatMap((one) => Object.values(one));
let db: TestDatabase;
let sql: Sql;

beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
}, 120_000);

afterAll(async () => {
  await sql?.end();
  await db?.drop();
});

describe("db/schema.ts", () => {
  for (const table of tables) {
    test(`${getTableName(table)}: columns have the types and the nullability of the database`, async () => {
      const rows = await sql<{ name: string; type: string; notNull: boolean }[]>`
        select attname as name, format_type(atttypid, atttypmod) as type, attnotnull as not_null
        from pg_attribute
        where attrelid = ${getTableName(table)}::regclass and attnum > 0 and not attisdropped`;
      const inDatabase = new Map(rows.map((row) => [row.name, `${row.type} ${row.notNull}`]));
      const columns = Object.values(getTableColumns(table));
      expect(columns.length).toBeGreaterThan(0);
      const differing = columns
        .map((column) => [column.name, `${typeOf(column)} ${column.notNull}`, inDatabase.get(column.name)])
        .filter(([, ours, theirs]) => ours !== theirs);
      expect(differing).toEqual([]);
    });
  }
});

/** As Postgres writes it. */
function typeOf(column: { getSQLType(): string }): string {
  return column.getSQLType().replace(", ", ",");
}

describe("db/schema.sql", () => {
  test("is what the baseline and the migrations produce (`bun run schema` writes it)", async () => {
    expect(await dumpSchema(sql)).toBe(readFileSync(SCHEMA_DUMP, "utf8"));
  });
});

describe("migrations", () => {
  test("applied again: nothing to do, even when two processes start concurrently", async () => {
    expect(await Promise.all([migrate(db.url), migrate(db.url)])).toEqual([[], []]);
  });

  test("the baseline contains every file of db/schema", async () => {
    const [{ text }, folder] = [await readBaseline(), join(import.meta.dir, "../../db/schema")];
    const missing = readdirSync(folder).filter(
      (name) => !text.includes(readFileSync(join(folder, name), "utf8").trim()),
    );
    expect(missing).toEqual([]);
  });

  test("a comment of the baseline may change, a statement may not", () => {
    const text = "-- one\n\ncreate table a (\n  -- two\n  b int\n);\n";
    expect(withoutComments(text)).toBe("create table a (\n  b int\n);\n");
  });

  test("two processes on an empty database: each file is applied once, the baseline first", async () => {
    await withDatabase("empty", async (url) => {
      const applied = (await Promise.all([migrate(url), migrate(url)])).flat();
      expect(applied[0]).toBe(BASELINE);
      expect(new Set(applied).size).toBe(applied.length);
    });
  });

  test("error: a file that was changed after it was applied", async () => {
    await sql`update migrations set sha256 = 'other' where name = ${BASELINE}`;
    await expect(migrate(db.url)).rejects.toThrow(`${BASELINE} was changed`);
  });
});

async function withDatabase(suffix: string, work: (url: string) => Promise<void>): Promise<void> {
  const name = `${db.name}_${suffix}`;
  await sql.unsafe(`create database ${name} template template0`);
  const url = new URL(db.url);
  url.pathname = `/${name}`;
  try {
    await work(url.href);
  } finally {
    // not by force: a connection that a migration is just closing would fail by it, unhandled
    await sql.unsafe(`drop database ${name}`);
  }
}
