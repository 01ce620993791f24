/** Rows of an export in batches: each once, in order, and how far the database is ahead of what renders them. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { newUserId } from "../../core/domain/ids.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { insertUser } from "../../db/accounts/users.ts";
import { fetchExportRows, openExportCursor } from "../../db/exports/export-rows.ts";
import { openDatabase, type Sql, type Tx } from "../../db/postgres/client.ts";
import { BATCH_ROWS, readBatches } from "../../worker/exports/read-batches.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";
import { insertHistory } from "../transactions/history.ts";

const START_MS = Date.UTC(2026, 0, 30);
let db: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  db = await createTestDatabase();
  sql = openDatabase(db.url, { name: "test", maxConnections: 2 });
}, 120_000);
afterAll(async () => {
  await sql?.end({ timeout: 1 });
  await db?.drop();
});

/** A user's rows, newest first, and what `read` makes of the cursor over them. */
async function readRows<Result>(count: number, read: (tx: Tx, ids: readonly string[]) => Promise<Result>) {
  const userId = newUserId();
  await insertUser(sql, { id: userId, email: `${userId}@example.com` });
  const given = Array.from({ length: count }, (_, n) => ({ detectedAt: new Date(START_MS - n * 1_000) }));
  const ids = count > 0 ? await insertHistory(sql, userId, given) : [];
  return sql.begin("isolation level repeatable read read only", async (tx) => {
    await openExportCursor(
      tx,
      { userId, filter: NO_FILTER, limit: 10_000 },
      { detail: "list", order: "newest" },
    );
    return read(tx, ids);
  });
}

test("every row is returned once, whether the database reads ahead or not", async () => {
  for (const isAhead of [false, true])
    for (const count of [0, BATCH_ROWS - 1, BATCH_ROWS, BATCH_ROWS + 1, 2 * BATCH_ROWS]) {
      await readRows(count, async (tx, ids) => {
        const seen: string[] = [];
        let noted = 0;
        const onRead = async (rows: number) => {
          noted += rows;
        };
        for await (const rows of readBatches(tx, { isAhead, rests: !isAhead, onRead }))
          seen.push(...rows.map(({ id }) => id));
        expect(seen).toEqual([...ids]);
        expect(noted).toBe(count);
      });
    }
}, 120_000);

test("a batch is fetched when the previous one is rendered, or one batch ahead", async () => {
  for (const [isAhead, next] of [
    [false, BATCH_ROWS],
    [true, 2 * BATCH_ROWS],
  ] as const) {
    await readRows(3 * BATCH_ROWS, async (tx, ids) => {
      const batches = readBatches(tx, { isAhead, rests: !isAhead, onRead: async () => {} });
      await batches.next();
      // where the cursor stands while the first batch is rendered
      const [row] = await fetchExportRows(tx, 1);
      expect(row?.id).toBe(ids[next] ?? "");
      await batches.return(undefined);
    });
  }
}, 120_000);
