/** Fills an empty, migrated database from a dump: one transaction, so that a broken file leaves nothing behind. */
import { once } from "node:events";
import type { Writable } from "node:stream";
import { z } from "zod";
import type { Tx } from "../postgres/client.ts";
import { FORMAT, RECORD, RECORD_MAX_BYTES } from "./dump.ts";

const headerSchema = z.object({ format: z.number(), createdAt: z.string(), migrations: z.array(z.string()) });
/** Names were quoted by Postgres when they were written. */
const quoted = z.string().regex(/^("[^"]+"|[a-z_][a-z0-9_]*)(\.("[^"]+"|[a-z_][a-z0-9_]*))?$/);
const tableSchema = z.object({ name: quoted, columns: z.array(quoted).min(1) });
const sequenceSchema = z.object({ name: quoted, value: z.string().regex(/^\d+$/), isCalled: z.boolean() });

export type DumpRecord = { kind: number; content: Buffer };
export type DumpHeader = z.infer<typeof headerSchema>;

const HEAD_BYTES = 5;

/** The records of a stream. Throws when it ends within one. */
export async function* readRecords(stream: AsyncIterable<Uint8Array>): AsyncGenerator<DumpRecord> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of stream) {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      if (rest.length < HEAD_BYTES) break;
      const length = rest.readUInt32BE();
      if (length > RECORD_MAX_BYTES) throw new Error("this is not a backup of this service");
      if (rest.length < HEAD_BYTES + length) break;
      yield { kind: rest[4] ?? 0, content: rest.subarray(HEAD_BYTES, HEAD_BYTES + length) };
      rest = rest.subarray(HEAD_BYTES + length);
    }
  }
  if (rest.length > 0) throw new Error("the backup ends in the middle: the file is incomplete");
}

export function readHeader(first: DumpRecord | undefined): DumpHeader {
  if (first?.kind !== RECORD.header) throw new Error("this is not a backup of this service");
  const header = headerSchema.parse(JSON.parse(first.content.toString()));
  if (header.format !== FORMAT)
    throw new Error(`the backup has format ${header.format}, but this version reads ${FORMAT}`);
  return header;
}

/** Loads what follows the header and returns the number of tables. Our triggers do not fire, because their effects are rows of the dump too. */
export async function loadRecords(tx: Tx, records: AsyncIterator<DumpRecord>): Promise<number> {
  const tables: string[] = [];
  let copy: Writable | undefined;
  const endCopy = async () => {
    if (copy === undefined) return;
    copy.end();
    await once(copy, "finish");
    copy = undefined;
  };
  for (;;) {
    const { value, done } = await records.next();
    if (done) throw new Error("the backup has no end: the file is incomplete");
    if (value.kind === RECORD.rows) {
      if (copy === undefined) throw new Error("the backup has rows without a table");
      if (!copy.write(Buffer.from(value.content))) await once(copy, "drain");
      continue;
    }
    await endCopy();
    const content: unknown = JSON.parse(value.content.toString());
    if (value.kind === RECORD.table) {
      const { name, columns } = tableSchema.parse(content);
      await tx.unsafe(`alter table ${name} disable trigger user`);
      await tx.unsafe(`delete from ${name}`);
      copy = await tx.unsafe(`copy ${name} (${columns.join(", ")}) from stdin`).writable();
      tables.push(name);
    } else if (value.kind === RECORD.sequence) {
      const { name, value: last, isCalled } = sequenceSchema.parse(content);
      await tx`select setval(${name}::regclass, ${last}::text::bigint, ${isCalled})`;
    } else if (value.kind === RECORD.end) break;
  }
  for (const name of tables) await tx.unsafe(`alter table ${name} enable trigger user`);
  return tables.length;
}
