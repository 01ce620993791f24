/** The whole database as one stream, read in one snapshot while the service runs. db/backup/load.ts reads it back. */
import type { Tx } from "../postgres/client.ts";
import { listAppliedMigrations, listSequences, listTables } from "./tables.ts";

/**
 * The stream is a list of records: a length (4 bytes, big-endian), a kind (1 byte) and the content. Rows are in COPY's text format, which
 * every version of Postgres reads.
 */
export const RECORD = { header: 1, table: 2, rows: 3, sequence: 4, end: 5 } as const;
export const FORMAT = 1;
/** Our largest row is a chunk of an export. */
export const RECORD_MAX_BYTES = 64 * 1024 * 1024;

export type Header = { format: number; createdAt: string; migrations: string[] };

/** `tx` must be a read-only transaction with isolation level `repeatable read`. */
export async function* dumpDatabase(tx: Tx, createdAt: Date): AsyncGenerator<Buffer> {
  const migrations = await listAppliedMigrations(tx);
  yield jsonRecord(RECORD.header, {
    format: FORMAT,
    createdAt: createdAt.toISOString(),
    migrations,
  } satisfies Header);
  for (const table of await listTables(tx)) {
    yield jsonRecord(RECORD.table, table);
    const rows = await tx.unsafe(`copy ${table.name} (${table.columns.join(", ")}) to stdout`).readable();
    for await (const chunk of rows) yield record(RECORD.rows, chunk as Buffer);
    // the driver pauses its socket while the stream is full, even when the same packet contains the end of the copy, and nothing would resume it
    rows._read(0);
  }
  for (const sequence of await listSequences(tx)) yield jsonRecord(RECORD.sequence, sequence);
  yield jsonRecord(RECORD.end, {});
}

function jsonRecord(kind: number, value: unknown): Buffer {
  return record(kind, Buffer.from(JSON.stringify(value)));
}

function record(kind: number, content: Uint8Array): Buffer {
  if (content.length > RECORD_MAX_BYTES) throw new RangeError(`a record of ${content.length} bytes`);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(content.length);
  head[4] = kind;
  return Buffer.concat([head, content]);
}
