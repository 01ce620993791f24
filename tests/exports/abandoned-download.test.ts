/** A client that goes away while a chunk is read is no failure of the download. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFile, serveExport } from "../../api/exports/download.ts";
import { newExportId, newUserId } from "../../core/domain/ids.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { insertUser } from "../../db/accounts/users.ts";
import { insertChunk, insertExport } from "../../db/exports/exports.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

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

async function fileOf(chunks: readonly Uint8Array[]) {
  const userId = newUserId();
  await insertUser(sql, { id: userId, email: `${userId}@example.com` });
  const request = { filter: NO_FILTER, profile: "standard", timeZone: "UTC" } as const;
  const file = await insertExport(sql, {
    id: newExportId(),
    userId,
    format: "csv",
    requestId: null,
    request,
  });
  for (const [position, bytes] of chunks.entries()) await insertChunk(sql, file, { position, bytes });
  return { ...file, byteSize: BigInt(chunks.reduce((sum, { byteLength }) => sum + byteLength, 0)) };
}

test.each([true, false])(
  "a stream that is cancelled while a chunk is read reports nothing (isAhead %p)",
  async (isAhead) => {
    const file = await fileOf(Array.from({ length: 40 }, (_, n) => Buffer.alloc(65_536, n)));
    const errors: unknown[] = [];
    const reader = readFile(sql, file, { isAhead, onError: (error) => errors.push(error) }).getReader();
    await reader.read();
    const reading = reader.read().catch(() => undefined);
    await reader.cancel();
    await reading;
    await Bun.sleep(200);
    expect(errors.map(String)).toEqual([]);
  },
);

test("a client of HTTP that goes away reports nothing", async () => {
  const file = await fileOf(
    Array.from({ length: 200 }, () => crypto.getRandomValues(new Uint8Array(65_536))),
  );
  const errors: unknown[] = [];
  const log = { error: (fields: unknown) => errors.push(fields) };
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () => serveExport({ sql, log } as never, { headers: {} } as never, file),
  });
  for (let n = 0; n < 20; n++) {
    const stop = new AbortController();
    const answer = await fetch(server.url, { signal: stop.signal });
    const body = answer.body?.getReader();
    await body?.read();
    await Bun.sleep(n);
    stop.abort();
    await body?.read().catch(() => {});
  }
  await Bun.sleep(500);
  await server.stop(true);
  expect(errors.map((one) => String((one as { err: unknown }).err))).toEqual([]);
});
