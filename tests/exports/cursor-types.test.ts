/** Exports of every kind take turns on a connection, which prepares `fetch` once and reads all rows by the types it had then. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { newUserId } from "../../core/domain/ids.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { insertUser } from "../../db/accounts/users.ts";
import { fetchExportRows, openExportCursor, type RowDetail } from "../../db/exports/export-rows.ts";
import { openDatabase } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { insertHistory } from "../transactions/history.ts";

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase();
}, 120_000);
afterAll(() => db?.drop());

test("the rows of every export have the same columns of the same types", async () => {
  const userId = newUserId();
  const sql = openDatabase(db.url, { name: "test", maxConnections: 1 });
  await insertUser(sql, { id: userId, email: "types@example.com" });
  await insertHistory(sql, userId, [{}]);
  await sql.end({ timeout: 1 });
  const typesOf = async (detail: RowDetail) => {
    const fresh = openDatabase(db.url, { name: "test", maxConnections: 1 });
    const types = await fresh.begin(async (tx) => {
      await openExportCursor(tx, { userId, filter: NO_FILTER, limit: 10 }, { detail, order: "oldest" });
      const rows = await fetchExportRows(tx, 10);
      expect(rows).toHaveLength(1);
      const { columns } = rows as unknown as { columns: { name: string; type: number }[] };
      return columns.map(({ name, type }) => `${name} ${type}`);
    });
    await fresh.end({ timeout: 1 });
    return types;
  };
  const accounting = await typesOf("accounting");
  expect(accounting).toContain("orderMetadata 3802");
  expect(await typesOf("movements")).toEqual(accounting);
  expect(await typesOf("list")).toEqual(accounting);
});
