/** A file in pieces: how it is stored as they come, and read again when they are asked for. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFile } from "../../api/exports/download.ts";
import { newExportId, newUserId } from "../../core/domain/ids.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { insertUser } from "../../db/accounts/users.ts";
import { type ExportTry, insertChunk, insertExport, readChunk } from "../../db/exports/exports.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { writeChunks } from "../../worker/exports/write-file.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const KB = 1024;
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

async function newExport(): Promise<ExportFile> {
  const userId = newUserId();
  await insertUser(sql, { id: userId, email: `${userId}@example.com` });
  const request = { filter: NO_FILTER, profile: "standard", timeZone: "UTC" } as const;
  return insertExport(sql, { id: newExportId(), userId, format: "csv", requestId: null, request });
}

/** The n-th piece is full of the byte n. */
async function* piecesOf(sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  for (const [n, size] of sizes.entries()) yield new Uint8Array(size).fill(n);
}

async function writtenSizes(sizes: readonly number[]): Promise<number[]> {
  const file = await newExport();
  const attempt = { file, signal: new AbortController().signal, keepLock: async () => {} };
  const bytes = await writeChunks(sql, attempt, piecesOf(sizes));
  expect(bytes).toBe(sizes.reduce((sum, size) => sum + size, 0));
  const read = new Uint8Array(await new Response(readFile(sql, file, { isAhead: false })).arrayBuffer());
  expect(Buffer.from(read)).toEqual(Buffer.concat(sizes.map((size, n) => Buffer.alloc(size, n))));
  const chunkSizes: number[] = [];
  for (
    let chunk = await readChunk(sql, file, 0);
    chunk;
    chunk = await readChunk(sql, file, chunkSizes.length)
  )
    chunkSizes.push(chunk.byteLength);
  return chunkSizes;
}

test("pieces share a chunk of 64 kB while they fit into it", async () => {
  expect(await writtenSizes(Array(7).fill(10 * KB))).toEqual([60 * KB, 10 * KB]);
  expect(await writtenSizes([40 * KB, 40 * KB, 24 * KB, 1])).toEqual([40 * KB, 64 * KB, 1]);
});

test("a piece larger than a chunk is a chunk of its own, and an empty file has none", async () => {
  expect(await writtenSizes([1, 100 * KB, 2])).toEqual([1, 100 * KB, 2]);
  expect(await writtenSizes([])).toEqual([]);
});

test("a file is sent whole and in order, whether a chunk is read ahead or not", async () => {
  const file = await newExport();
  for (let position = 0; position < 5; position++)
    await insertChunk(sql, file, { position, bytes: new Uint8Array([position, 255 - position]) });
  for (const isAhead of [false, true]) {
    const bytes = new Uint8Array(await new Response(readFile(sql, file, { isAhead })).arrayBuffer());
    expect([...bytes]).toEqual([0, 255, 1, 254, 2, 253, 3, 252, 4, 251]);
  }
});

test("a chunk is read when it is asked for, or ahead", async () => {
  for (const [isAhead, sent] of [
    [false, 8],
    [true, 7],
  ] as const) {
    const file = await newExport();
    for (const position of [0, 1]) await insertChunk(sql, file, { position, bytes: new Uint8Array([7]) });
    const reader = readFile(sql, file, { isAhead }).getReader();
    expect((await reader.read()).value).toEqual(new Uint8Array([7]));
    await settledReads();
    await change(file, { position: 1, byte: 8 });
    expect((await reader.read()).value).toEqual(new Uint8Array([sent]));
    expect((await reader.read()).done).toBe(true);
  }
});

/** Reads that were begun have ended: the pool's connections answer in the order they were asked. */
async function settledReads(): Promise<void> {
  await Promise.all([sql`select pg_sleep(0.05)`, sql`select pg_sleep(0.05)`]);
}

async function change(
  { id, attempts }: ExportTry,
  { position, byte }: { position: number; byte: number },
): Promise<void> {
  await sql`
    update export_chunks
    set bytes = ${new Uint8Array([byte])}
    where export_id = ${id} and attempt = ${attempts} and position = ${position}`;
}
