/**
 * Renders an export: one repeatable read transaction reads the rows through a cursor, so the file is one snapshot and memory holds one
 * batch. The pieces are committed one by one, for the event log waits for long transactions that write; they are not read before the
 * export is READY. Runs again from the start after a crash, with pieces of its own.
 */
import { setImmediate } from "node:timers/promises";
import { ARCHIVE_DOCUMENTS_MAX, type DocumentArchive } from "../../core/domain/document.ts";
import type { FiatChoice } from "../../core/domain/exchange-rate.ts";
import {
  describeFilter,
  EXPORT_ROWS_MAX,
  type ExportFormat,
  type ExportProfile,
  type ExportRow,
  type ExportSummary,
} from "../../core/domain/export.ts";
import { ExportRefusal } from "../../core/domain/export-refusal.ts";
import type { Valuation } from "../../core/domain/fiat.ts";
import { localTime } from "../../core/domain/local-time.ts";
import { PROOF_ROWS_MAX } from "../../core/domain/proven-export.ts";
import type { StatementRequest } from "../../core/domain/statement.ts";
import { defaultMerchantName } from "../../core/domain/user.ts";
import type { Log } from "../../core/runtime/log.ts";
import { findUser } from "../../db/accounts/users.ts";
import {
  deleteChunks,
  type ExportRequest,
  failExport,
  findWaitingExport,
  finishExport,
  holdExport,
  insertChunk,
  parseExportRequest,
  refuseExport,
  setExportProgress,
  setExportSize,
  startExport,
} from "../../db/exports/exports.ts";
import { findDatevSettings } from "../../db/exports/merchant-books.ts";
import { fetchExportRows, openExportCursor, type RowOrder, summarizeExport } from "../../db/exports/rows.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import { readValuation } from "../../db/exports/valuation.ts";
import { enqueue, type JobPayload } from "../../db/jobs/queue.ts";
import type { Sql, Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import type { Reader } from "../../db/postgres/replica.ts";
import { countChosen } from "../../db/transactions/transactions.ts";
import { findWallet, listWallets } from "../../db/wallets/wallets.ts";
import { buildArchive, numberMonth } from "./archive/build-archive.ts";
import { refuseTruncated } from "./importers/refuse-truncated.ts";
import { renderProofs } from "./proof/render-proofs.ts";
import { rendererOf } from "./render.ts";
import type { Batches } from "./renderer.ts";
import { openStatement, withBalances } from "./statement/build-statement.ts";
import { type ClosingDeps, closePeriod } from "./statement/closing.ts";
import { STATEMENT_RENDERERS } from "./statement/render-statement.ts";

export type ExportDeps = ClosingDeps & { reader: Reader; log: Log };

/** Rendering holds the event loop for a batch: some 15 ms of a PDF. */
const BATCH_ROWS = 250;
/** Files this process renders at a time. One keeps a core busy: a second would make everybody else on two cores wait, and double the memory. */
const RENDERS_AT_ONCE = 1;
/**
 * Left to itself the collector lets the process grow by 100 MB before it collects; a collection takes 5 to 40 ms.
 * So it runs when the process has grown by this since the last time; sooner for pages, which leave most garbage.
 */
const COLLECT_AFTER_BYTES = 16 * 1024 * 1024;
const COLLECT_PAGES_AFTER_BYTES = 6 * 1024 * 1024;
/** A piece is read and sent in one go: small, so that an API with many downloads still answers others. */
const CHUNK_BYTES = 64 * 1024;
const ATTEMPTS_MAX = 3;
const PROGRESS_EVERY_MS = 250;
/** A waiting export is polled after this, should its wake-up be lost. */
const POLL_MS = 3_000;

let rendering = 0;
let collectedAtBytes = Number.POSITIVE_INFINITY;
/** Exports this process was given while it rendered as many as it may. Each is also in the queue again, in case of a crash. */
const line: JobPayload<"build_export">[] = [];

/**
 * Renders an export, and then those that queued up during it, so that waiting occupies no job slot. Throws to be retried, until the export's
 * attempts are used up and it is FAILED.
 */
export async function buildExport(deps: ExportDeps, payload: JobPayload<"build_export">): Promise<void> {
  if (rendering >= RENDERS_AT_ONCE) {
    line.push(payload);
    await pollAgain(deps, payload);
    return;
  }
  rendering += 1;
  try {
    await buildOne(deps, payload);
    for (let next = line.shift(); next; next = line.shift()) {
      // its own job comes again and says what is wrong
      await buildOne(deps, next).catch((error: unknown) => deps.log.warn({ err: error }, "export failed"));
    }
  } finally {
    rendering -= 1;
  }
}

function pollAgain({ sql }: ExportDeps, payload: JobPayload<"build_export">): Promise<void> {
  return enqueue(sql, "build_export", payload, { runAt: new Date(Date.now() + POLL_MS) });
}

/** A transaction that does nothing else locks the export until it is READY: no other worker touches its pieces. */
async function buildOne(deps: ExportDeps, payload: JobPayload<"build_export">): Promise<void> {
  const { sql } = deps;
  const outcome = await sql.begin(async (holder) => {
    if (!(await holdExport(holder, payload.exportId))) return "held";
    const started = await sql.begin((tx) => startExport(tx, payload.exportId));
    if (!started) return "done";
    if ("waitsForUser" in started) return "waits";
    try {
      await makeFile(deps, holder, started.export);
      return "done";
    } catch (error) {
      return { file: started.export, error };
    }
  });
  if (typeof outcome === "object") await failOrRetry(deps, outcome.file, outcome.error);
  else if (outcome !== "done") await pollAgain(deps, payload);
}

async function makeFile(deps: ExportDeps, holder: Tx, file: ExportFile): Promise<void> {
  const { log } = deps;
  const startedMs = performance.now();
  const { rows, bytes } = await renderFile(deps, file);
  await finishExport(holder, file, { byteSize: bytes, rowsDone: rows });
  await wakeNext(holder, file);
  const ms = Math.round(performance.now() - startedMs);
  const { id: exportId, format, requestId } = file;
  log.info({ exportId, format, rows, bytes, ms, requestId }, "export ready");
}

async function failOrRetry({ sql, log }: ExportDeps, file: ExportFile, error: unknown): Promise<void> {
  const status = await sql.begin(async (tx) => {
    if (error instanceof ExportRefusal) {
      await refuseExport(tx, file, error.message);
      await deleteChunks(tx, file);
      await wakeNext(tx, file);
      return "REFUSED";
    }
    const message = error instanceof Error ? error.name : "Error";
    const after = await failExport(tx, file, { error: message, attemptsMax: ATTEMPTS_MAX });
    // none when it became READY, and only the answer was lost
    if (after) await deleteChunks(tx, file);
    await wakeNext(tx, file);
    return after;
  });
  const label = { exportId: file.id, requestId: file.requestId };
  if (status === "REFUSED") return log.info({ ...label, reason: String(error) }, "export refused");
  if (status !== "FAILED") throw error;
  log.error({ ...label, err: error }, "export failed permanently");
}

/** Notifies whoever waits for this export, and starts the user's next one. */
async function wakeNext(tx: Tx, file: ExportFile): Promise<void> {
  await notify(tx, [file.id]);
  const next = await findWaitingExport(tx, file.userId);
  if (next) await enqueue(tx, "build_export", { exportId: next.id });
}

type Rendered = { rows: number; bytes: number };

async function renderFile(deps: ExportDeps, file: ExportFile): Promise<Rendered> {
  const request = parseExportRequest(file.request);
  if (request.statement)
    return renderStatement(deps, file, {
      ...request.statement,
      timeZone: request.timeZone,
      fiat: request.fiat,
    });
  if (request.archive) return renderArchive(deps, file, request.archive, request.timeZone);
  if (request.proof) return renderProven(deps, file, request);
  const { sql, reader } = deps;
  const render = rendererOf(request.profile, file.format);
  if (!render) throw new Error(`the profile ${request.profile} has no ${file.format}`);
  const selection = { userId: file.userId, filter: request.filter, limit: EXPORT_ROWS_MAX };
  return reader.read(async (tx) => {
    await deleteChunks(sql, file);
    const summary = await summarize(tx, file, request);
    if (request.isWhole) refuseTruncated(summary);
    await setExportSize(sql, file.id, summary);
    await openExportCursor(tx, selection, {
      detail: request.profile === "standard" ? "list" : "accounting",
      order: orderOf(request.profile, file.format),
    });
    return writeFile(sql, file, tx, (batches) => render(summary, batches));
  });
}

function orderOf(profile: ExportProfile, format: ExportFormat): RowOrder {
  if (profile === "books") return "oldest";
  return format === "pdf" || format === "text" ? "confirmed-first" : "newest";
}

/** The chain is read before the snapshot, which then holds every movement up to that block. */
async function renderStatement(
  deps: ExportDeps,
  file: ExportFile,
  request: StatementRequest,
): Promise<Rendered> {
  const { sql, reader } = deps;
  const wallet = await findWallet(sql, file.userId, request.network);
  const render = STATEMENT_RENDERERS[file.format];
  if (!wallet || !render) throw new Error(`there is no statement of ${request.network} as ${file.format}`);
  const closing = await closePeriod(deps, wallet, request.before);
  return reader.read(async (tx) => {
    await deleteChunks(sql, file);
    const head = await openStatement(tx, wallet, { request, closing });
    await setExportSize(sql, file.id, { rows: head.movements, matched: head.movements });
    return writeFile(sql, file, tx, (batches) => render(head, withBalances(head, batches)));
  });
}

/** The rows are read first: no snapshot is held while nodes are asked. */
async function renderProven(deps: ExportDeps, file: ExportFile, request: ExportRequest): Promise<Rendered> {
  const { sql, reader, chains } = deps;
  const { timeZone } = request;
  const { userId } = file;
  await deleteChunks(sql, file);
  const { rows, wallets } = await reader.read(async (tx) => {
    const selection = { userId, filter: request.filter, limit: PROOF_ROWS_MAX };
    await openExportCursor(tx, selection, { detail: "accounting", order: "oldest" });
    return { rows: await fetchExportRows(tx, PROOF_ROWS_MAX), wallets: await listWallets(tx, userId) };
  });
  const matched = await countChosen(sql, userId, request.filter);
  await setExportSize(sql, file.id, { rows: rows.length, matched: Math.max(matched, rows.length) });
  const note = noteProgress(sql, file, COLLECT_AFTER_BYTES);
  const pieces = renderProofs(chains, { rows, wallets, timeZone }, () => note(1));
  return { bytes: await writeChunks(sql, file, pieces), rows: rows.length };
}

/** Documents are read as they stand at that moment: each is complete by itself. */
async function renderArchive(
  { sql }: ExportDeps,
  file: ExportFile,
  archive: DocumentArchive,
  timeZone: string,
): Promise<Rendered> {
  const { userId } = file;
  await deleteChunks(sql, file);
  const rows = await numberMonth(sql, { userId, archive, timeZone });
  if (rows > ARCHIVE_DOCUMENTS_MAX)
    throw new ExportRefusal(
      `the month has more than ${ARCHIVE_DOCUMENTS_MAX} documents, the most an archive holds`,
    );
  await setExportSize(sql, file.id, { rows, matched: rows });
  const note = noteProgress(sql, file, COLLECT_PAGES_AFTER_BYTES);
  const pieces = buildArchive(sql, { userId, archive, timeZone }, () => note(1));
  return { bytes: await writeChunks(sql, file, pieces), rows };
}

/** Renders what the cursor of `tx` holds, and notes the progress. */
async function writeFile(
  sql: Sql,
  file: ExportFile,
  tx: Tx,
  render: (batches: Batches) => AsyncIterable<Uint8Array>,
): Promise<Rendered> {
  const collectAfter = file.format === "pdf" ? COLLECT_PAGES_AFTER_BYTES : COLLECT_AFTER_BYTES;
  const note = noteProgress(sql, file, collectAfter);
  let done = 0;
  const batches = readBatches(tx, async (rows) => {
    done += rows;
    await note(rows);
  });
  const bytes = await writeChunks(sql, file, render(batches));
  return { rows: done, bytes };
}

/** Called with the rows that are done since the last call. */
function noteProgress(sql: Sql, file: ExportFile, collectAfter: number): (rows: number) => Promise<void> {
  const done = { rows: 0, reportedAtMs: performance.now() };
  return async (rows) => {
    collectWhenGrown(collectAfter);
    done.rows += rows;
    if (performance.now() - done.reportedAtMs < PROGRESS_EVERY_MS) return;
    done.reportedAtMs = performance.now();
    await setExportProgress(sql, file, done.rows);
  };
}

async function summarize(tx: Tx, file: ExportFile, request: ExportRequest): Promise<ExportSummary> {
  const { filter } = request;
  const totals = await summarizeExport(tx, { userId: file.userId, filter, limit: EXPORT_ROWS_MAX });
  const rows = totals.reduce((sum, total) => sum + total.count, 0);
  const user = await findUser(tx, file.userId);
  const times = totals.flatMap(({ newest, oldest }) => [newest.getTime(), oldest.getTime()]);
  return {
    profile: request.profile,
    timeZone: request.timeZone,
    metadataColumns: request.metadataColumns ?? [],
    columns: request.columns,
    datev: file.format === "datev" ? await findDatevSettings(tx, file.userId) : undefined,
    valuation: request.fiat && (await openFiat(tx, file, request.fiat, { request, times })),
    merchantName: user?.displayName ?? defaultMerchantName(user?.email ?? "@"),
    generatedAt: new Date(),
    filters: describeFilter(filter),
    rows,
    matched: rows < EXPORT_ROWS_MAX ? rows : await countChosen(tx, file.userId, filter),
    newest: times.length > 0 ? new Date(Math.max(...times)) : undefined,
    oldest: times.length > 0 ? new Date(Math.min(...times)) : undefined,
    totals,
  };
}

/** Reads the rates of the days from the first movement on. */
function openFiat(
  tx: Tx,
  { userId }: ExportFile,
  fiat: FiatChoice,
  { request, times }: { request: ExportRequest; times: readonly number[] },
): Promise<Valuation> {
  const first = times.length > 0 ? new Date(Math.min(...times)) : new Date();
  return readValuation(tx, fiat, { userId, firstDay: localTime(first, request.timeZone).slice(0, 10) });
}

/** The database reads a batch while the one before it is rendered. */
async function* readBatches(
  tx: Tx,
  onRead: (rows: number) => Promise<void>,
): AsyncGenerator<readonly ExportRow[]> {
  let coming = startFetch(tx);
  for (;;) {
    const rows = await coming;
    if (rows.length === 0) return;
    coming = rows.length < BATCH_ROWS ? Promise.resolve([]) : startFetch(tx);
    yield rows;
    await onRead(rows.length);
    // rendering holds the event loop; the other jobs of this process get their turn between batches
    await setImmediate();
  }
}

function startFetch(tx: Tx): Promise<readonly ExportRow[]> {
  const rows = fetchExportRows(tx, BATCH_ROWS);
  // thrown where it is awaited, which is never when rendering fails before
  rows.catch(() => {});
  return rows;
}

function collectWhenGrown(byBytes: number): void {
  const bytes = process.memoryUsage.rss();
  collectedAtBytes = Math.min(collectedAtBytes, bytes);
  if (bytes < collectedAtBytes + byBytes) return;
  Bun.gc(true);
  collectedAtBytes = process.memoryUsage.rss();
}

/** A chunk is committed while the next one is rendered. */
async function writeChunks(sql: Sql, file: ExportFile, pieces: AsyncIterable<Uint8Array>): Promise<number> {
  let waiting: Uint8Array[] = [];
  let waitingBytes = 0;
  let position = 0;
  let total = 0;
  let inserted = Promise.resolve();
  const flush = async () => {
    await inserted;
    if (waitingBytes === 0) return;
    inserted = insertChunk(sql, file, { position, bytes: Buffer.concat(waiting) });
    // thrown where it is awaited
    inserted.catch(() => {});
    position += 1;
    waiting = [];
    waitingBytes = 0;
  };
  try {
    for await (const piece of pieces) {
      waiting.push(piece);
      waitingBytes += piece.byteLength;
      total += piece.byteLength;
      if (waitingBytes >= CHUNK_BYTES) await flush();
    }
    await flush();
  } catch (error) {
    // the chunks are deleted next; why rendering failed is what counts
    await inserted.catch(() => {});
    throw error;
  }
  await inserted;
  return total;
}
