/** Exports: the request, its progress, and the file in chunks. */
import { z } from "zod";
import type { FiatChoice } from "../../core/domain/exchange-rate.ts";
import { EXPORT_PROFILES, EXPORTS_AT_ONCE_PER_USER } from "../../core/domain/export.ts";
import { EXPORT_KEPT_DAYS } from "../../core/domain/export-lifetime.ts";
import type { ProfileColumn } from "../../core/domain/export-profile.ts";
import { LANGUAGE_TAGS } from "../../core/domain/language.ts";
import { NETWORK_IDS, type NetworkId } from "../../core/domain/networks.ts";
import type { DocumentArchive } from "../../core/domain/numbered-document.ts";
import { TRANSACTION_STATUSES, TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import type { TransactionFilter } from "../../core/domain/transaction.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type ExportFile, exportFiles } from "./schema.ts";
import { packChunk, type StoredChunk, unpackChunk } from "./stored-chunk.ts";

const units = z.string().regex(/^\d+$/).transform(BigInt);
const instant = z.iso.datetime().transform((text) => new Date(text));

/** Contents of `exports.request`. */
const requestSchema = z.object({
  filter: z.object({
    types: z.array(z.enum(TRANSACTION_TYPES)),
    statuses: z.array(z.enum(TRANSACTION_STATUSES)),
    networks: z.array(z.enum(NETWORK_IDS)),
    currencies: z.array(z.literal("USDC")),
    from: instant.optional(),
    before: instant.optional(),
    search: z.string().optional(),
    minUnits: units.optional(),
    maxUnits: units.optional(),
  }),
  profile: z.enum(EXPORT_PROFILES),
  timeZone: z.string(),
  metadataColumns: z.array(z.string()).default([]),
  columns: z.array(z.object({ column: z.string(), title: z.string() })).optional(),
  /** How movements are valued; absent: not valued. */
  fiat: z
    .object({
      currency: z.string(),
      source: z.string(),
      usdcRate: z.enum(["par", "source"]),
      isCorrected: z.boolean(),
    })
    .optional(),
  /** A statement of one wallet and period instead of filtered rows. */
  statement: z.object({ network: z.enum(NETWORK_IDS), from: instant, before: instant }).optional(),
  /** Refused rather than truncated; a statement is not created before its period is final. */
  isWhole: z.boolean().optional(),
  /** With a proof of each movement for readers who do not trust the service. */
  proof: z.boolean().optional(),
  /** Numbered documents of a period. */
  archive: z
    .object({ from: instant, before: instant, language: z.enum(LANGUAGE_TAGS).optional() })
    .optional(),
});
export type ExportRequest = {
  filter: TransactionFilter;
  profile: (typeof EXPORT_PROFILES)[number];
  timeZone: string;
  metadataColumns?: readonly string[] | undefined;
  columns?: readonly ProfileColumn[] | undefined;
  fiat?: FiatChoice | undefined;
  statement?: { network: NetworkId; from: Date; before: Date } | undefined;
  isWhole?: boolean | undefined;
  proof?: boolean | undefined;
  archive?: DocumentArchive | undefined;
};

export function parseExportRequest(stored: unknown): ExportRequest {
  return requestSchema.parse(stored);
}

/** Undefined: written by a version with another request format. */
export function readExportRequest(stored: unknown): ExportRequest | undefined {
  return requestSchema.safeParse(stored).data;
}

export async function insertExport(
  tx: Tx,
  given: Pick<ExportFile, "id" | "userId" | "format" | "requestId"> & {
    request: ExportRequest;
    keptDays?: number;
  },
): Promise<ExportFile> {
  const request = JSON.stringify(given.request, (_, value) =>
    typeof value === "bigint" ? value.toString() : value,
  );
  const [row] = await tx<ExportFile[]>`
    insert into exports (id, user_id, format, request, request_id, expires_at)
    values (
      ${given.id}, ${given.userId}, ${given.format}, ${request}::text::jsonb, ${given.requestId},
      now() + make_interval(days => ${given.keptDays ?? EXPORT_KEPT_DAYS}::int)
    )
    returning ${columnsOf(tx, exportFiles)}`;
  if (!row) throw new Error("insert into exports returned no row");
  return row;
}

/** A user's own export that has not expired. */
export async function findExport(
  tx: Tx,
  { id, userId }: { id: string; userId: string },
): Promise<ExportFile | undefined> {
  const [row] = await tx<ExportFile[]>`
    select ${columnsOf(tx, exportFiles)}
    from exports
    where id = ${id} and user_id = ${userId} and expires_at > now()`;
  return row;
}

/** Newest first. */
export async function listExports(tx: Tx, userId: string, limit: number): Promise<ExportFile[]> {
  return tx<ExportFile[]>`
    select ${columnsOf(tx, exportFiles)}
    from exports
    where user_id = ${userId} and expires_at > now()
    order by created_at desc, id desc
    limit ${limit}`;
}

/** One attempt to make a file. Chunks of other attempts are ignored, even while another renderer still writes them. */
export type ExportTry = Pick<ExportFile, "id" | "attempts">;

/** One chunk of the file; undefined after the last. Throws when it is damaged. */
export async function readChunk(
  tx: Tx,
  { id, attempts }: ExportTry,
  position: number,
): Promise<Uint8Array | undefined> {
  const [row] = await tx<StoredChunk[]>`
    select bytes, is_zstd
    from export_chunks
    where export_id = ${id} and attempt = ${attempts} and position = ${position}`;
  return row && unpackChunk(row);
}

/** Whether it includes proofs, whose duration depends on nodes. */
export async function hasProofs(tx: Tx, id: string): Promise<boolean> {
  const [row] = await tx<{ hasProofs: boolean | null }[]>`
    select (request -> 'proof')::boolean as has_proofs
    from exports
    where id = ${id}`;
  return row?.hasProofs === true;
}

/** Locks an export for one renderer until `tx` ends or its process dies. False when another holds the lock. */
export async function holdExport(tx: Tx, id: string): Promise<boolean> {
  await tx`set local idle_in_transaction_session_timeout = '15min'`;
  const [row] = await tx<{ held: boolean }[]>`
    select pg_try_advisory_xact_lock(hashtext('export'), hashtext(${id})) as held`;
  return row?.held === true;
}

export type StartResult = { export: ExportFile } | { waitsForUser: true } | undefined;

/**
 * QUEUED | RUNNING (of a dead renderer) -> RUNNING, unless the user has reached the limit of concurrent exports. Undefined when there is
 * nothing to do. Call while holding the lock.
 */
export async function startExport(tx: Tx, id: string): Promise<StartResult> {
  const [found] = await tx<ExportFile[]>`
    select ${columnsOf(tx, exportFiles)}
    from exports
    where id = ${id} and status in ('QUEUED', 'RUNNING')`;
  if (!found) return undefined;
  await tx`select pg_advisory_xact_lock(hashtext('exports of user'), hashtext(${found.userId}))`;
  const [row] = await tx<ExportFile[]>`
    update exports
    set status = 'RUNNING', attempts = attempts + 1, started_at = now(), rows_done = 0
    where id = ${id}
      and status in ('QUEUED', 'RUNNING')
      and (
        select count(*)
        from exports other
        where other.user_id = ${found.userId} and other.status = 'RUNNING' and other.id <> ${id}
          and other.started_at > now() - interval '1 minute'
      ) < ${EXPORTS_AT_ONCE_PER_USER}
    returning ${columnsOf(tx, exportFiles)}`;
  return row ? { export: row } : { waitsForUser: true };
}

/** Deletes the chunks of this attempt and earlier ones. */
export async function deleteChunks(tx: Tx, { id, attempts }: ExportTry): Promise<void> {
  await tx`delete from export_chunks where export_id = ${id} and attempt <= ${attempts}`;
}

export async function setExportSize(
  tx: Tx,
  id: string,
  size: { rows: number; matched: number },
): Promise<void> {
  await tx`
    update exports
    set rows_total = ${size.rows}, rows_matched = ${size.matched}, truncated = ${size.matched > size.rows}
    where id = ${id}`;
}

export async function setExportProgress(
  tx: Tx,
  { id, attempts }: ExportTry,
  rowsDone: number,
): Promise<void> {
  await tx`
    update exports
    set rows_done = ${rowsDone}
    where id = ${id} and attempts = ${attempts} and status = 'RUNNING'`;
}

/** Commits asynchronously: the durable commit that makes the export READY comes later and includes this one. */
export async function insertChunk(
  tx: Tx,
  { id, attempts }: ExportTry,
  chunk: { position: number; bytes: Uint8Array },
): Promise<void> {
  const { bytes, isZstd } = packChunk(chunk.bytes);
  await tx`
    insert into export_chunks (export_id, attempt, position, bytes, is_zstd)
    select ${id}::text, ${attempts}::int, ${chunk.position}::int, ${bytes}::bytea, ${isZstd}::boolean
    from set_config('synchronous_commit', 'off', true)`;
}

/** RUNNING -> READY, unless another attempt has begun. The transaction may have been open since the attempt began. */
export async function finishExport(
  tx: Tx,
  { id, attempts }: ExportTry,
  { byteSize, rowsDone }: { byteSize: number; rowsDone: number },
): Promise<void> {
  await tx`
    update exports
    set status = 'READY', ready_at = clock_timestamp(), byte_size = ${byteSize}, rows_done = ${rowsDone}
    where id = ${id} and attempts = ${attempts} and status = 'RUNNING'`;
}

/** RUNNING -> FAILED, or back to QUEUED while attempts are left. Returns the new status. */
export async function failExport(
  tx: Tx,
  { id, attempts }: ExportTry,
  { error, attemptsMax }: { error: string; attemptsMax: number },
): Promise<ExportFile["status"] | undefined> {
  const [row] = await tx<Pick<ExportFile, "status">[]>`
    update exports
    set status = case when attempts >= ${attemptsMax} then 'FAILED' else 'QUEUED' end, error = ${error}
    where id = ${id} and attempts = ${attempts} and status = 'RUNNING'
    returning status`;
  return row?.status;
}

/**
 * RUNNING -> QUEUED, as if the attempt had not begun. The caller has stopped writing and deletes its chunks: the next attempt has the same
 * number. False when the export ended, or another attempt has begun.
 */
export async function returnExport(tx: Tx, { id, attempts }: ExportTry): Promise<boolean> {
  const result = await tx`
    update exports
    set status = 'QUEUED', attempts = attempts - 1
    where id = ${id} and attempts = ${attempts} and status = 'RUNNING'`;
  return result.count > 0;
}

/** RUNNING -> FAILED: no attempt could ever create the requested file. */
export async function refuseExport(tx: Tx, { id, attempts }: ExportTry, refusal: string): Promise<void> {
  await tx`
    update exports
    set status = 'FAILED', refusal = ${refusal.slice(0, 500)}
    where id = ${id} and attempts = ${attempts} and status = 'RUNNING'`;
}

/** The user's longest waiting export. */
export async function findWaitingExport(tx: Tx, userId: string): Promise<{ id: string } | undefined> {
  const [row] = await tx<{ id: string }[]>`
    select id
    from exports
    where user_id = ${userId} and status = 'QUEUED'
    order by created_at
    limit 1`;
  return row;
}
