/** How chunks are stored: compressed where it helps, read back whole, and never sent when they are not what was stored. A client that leaves is no failure. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { zstdCompressSync } from "node:zlib";
import { readFile, serveExport } from "../../api/exports/download.ts";
import { newExportId, newUserId } from "../../core/domain/ids.ts";
import { NO_FILTER } from "../../core/domain/transaction.ts";
import { insertUser } from "../../db/accounts/users.ts";
import { insertChunk, insertExport, readChunk } from "../../db/exports/exports.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import { openDatabase, type Sql } from "../../db/postgres/client.ts";
import { createTestDatabase, type TestDatabase } from "../support/postgres.ts";

const KB = 1024;
const TEXT = Buffer.from(
  Array.from(
    { length: 900 },
    (_, n) => `{"id": "txn_${n}", "hash": "0x${randomBytes(16).toString("hex")}"}`,
  ).join("\n"),
);
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

/** A file of these chunks, read as it is sent. */
async function fileOf(chunks: readonly Uint8Array[]): Promise<ExportFile> {
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

type Stored = { isZstd: boolean; bytes: Buffer; onDisk: number };

async function storedOf({ id }: ExportFile, position: number): Promise<Stored> {
  const [row] = await sql<Stored[]>`
    select is_zstd, bytes, pg_column_size(bytes) as on_disk
    from export_chunks
    where export_id = ${id} and position = ${position}`;
  if (!row) throw new Error(`there is no chunk ${position}`);
  return row;
}

async function store({ id }: ExportFile, position: number, bytes: Uint8Array): Promise<void> {
  await sql`update export_chunks set bytes = ${bytes} where export_id = ${id} and position = ${position}`;
}

/** What is sent, and the error that it ends with. */
async function sentOf(file: ExportFile, isAhead: boolean): Promise<{ sent: Buffer; error: unknown }> {
  let error: unknown;
  const pieces: Uint8Array[] = [];
  const stream = readFile(sql, file, { isAhead, onError: (thrown) => (error = thrown) });
  try {
    for await (const piece of stream) pieces.push(piece);
    if (error) throw new Error("the stream ended as if nothing had happened");
  } catch (thrown) {
    expect(thrown).toBe(error);
  }
  return { sent: Buffer.concat(pieces), error };
}

async function expectCutOff(file: ExportFile, sent: Uint8Array): Promise<void> {
  for (const isAhead of [false, true]) {
    const outcome = await sentOf(file, isAhead);
    expect(outcome.error).toBeInstanceOf(Error);
    expect(outcome.sent).toEqual(Buffer.from(sent));
  }
}

test("text is stored as a zstd frame and read back unchanged", async () => {
  const file = await fileOf([TEXT, Buffer.alloc(100 * KB, "a")]);
  for (const [position, raw] of [TEXT, Buffer.alloc(100 * KB, "a")].entries()) {
    const { isZstd, bytes } = await storedOf(file, position);
    expect(isZstd).toBe(true);
    expect(bytes.length).toBeLessThan(raw.length * 0.6);
    expect(bytes.readUInt32LE()).toBe(0xfd2fb528);
    expect(Buffer.from((await readChunk(sql, file, position)) ?? [])).toEqual(raw);
  }
  expect(await sentOf(file, false)).toEqual({
    sent: Buffer.concat([TEXT, Buffer.alloc(100 * KB, "a")]),
    error: undefined,
  });
});

test("a chunk that hardly gets smaller, or is a zstd frame itself, is stored as it is and read back unchanged", async () => {
  const hardly = Buffer.concat([randomBytes(62 * KB), Buffer.alloc(2 * KB)]);
  const chunks = [randomBytes(64 * KB), hardly, zstdCompressSync(TEXT), Buffer.from("a"), Buffer.alloc(0)];
  const file = await fileOf(chunks);
  for (const [position, raw] of chunks.entries()) {
    const { isZstd, bytes } = await storedOf(file, position);
    expect([isZstd, bytes.equals(raw)]).toEqual([false, true]);
  }
  expect(await sentOf(file, true)).toEqual({ sent: Buffer.concat(chunks), error: undefined });
});

test("chunks from before they were marked are read unchanged, and Postgres compresses none", async () => {
  const chunks = [TEXT, zstdCompressSync(TEXT)];
  const file = await fileOf([]);
  for (const [position, bytes] of chunks.entries())
    await sql`
      insert into export_chunks (export_id, attempt, position, bytes)
      values (${file.id}, ${file.attempts}, ${position}, ${bytes})`;
  const whole = Buffer.concat(chunks);
  expect(await sentOf({ ...file, byteSize: BigInt(whole.length) }, false)).toEqual({
    sent: whole,
    error: undefined,
  });
  expect((await storedOf(file, 0)).onDisk).toBeGreaterThanOrEqual(TEXT.length);
});

test("error: a compressed chunk that was modified, truncated, extended or emptied ends the download before it", async () => {
  const file = await fileOf([Buffer.from("head"), TEXT, Buffer.from("tail")]);
  const { bytes: frame } = await storedOf(file, 1);
  const changed = Array.from({ length: 40 }, (_, n) => {
    const copy = Buffer.from(frame);
    const at = Math.floor((n / 40) * frame.length);
    copy.writeUInt8((copy[at] ?? 0) ^ (1 << (n % 8)), at);
    return copy;
  });
  const damaged = [
    ...changed,
    ...[0, 1, 100, frame.length - 4, frame.length - 1].map((length) => frame.subarray(0, length)),
    ...[Buffer.concat([frame, Buffer.from("x")]), TEXT],
  ];
  for (const bytes of damaged) {
    await store(file, 1, bytes);
    await expectCutOff(file, Buffer.from("head"));
  }
  await store(file, 1, frame);
  expect((await sentOf(file, true)).error).toBeUndefined();
}, 120_000);

test("error: a file with a missing or an extra chunk does not end as if it were complete", async () => {
  const chunks = ["one", "two", "three"].map((text) => Buffer.from(text));
  for (const left of [[0, 2], [0, 1], []]) {
    const file = await fileOf(chunks);
    await sql`delete from export_chunks where export_id = ${file.id} and position <> all(${left}::int[])`;
    await expectCutOff(file, Buffer.from(left[1] === 1 ? "onetwo" : left.length > 0 ? "one" : ""));
  }
  const file = await fileOf(chunks);
  await insertChunk(sql, file, { position: 3, bytes: Buffer.from("four") });
  await expectCutOff(file, Buffer.from("onetwothreefour"));
});

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

test("an HTTP client that disconnects reports nothing", async () => {
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
