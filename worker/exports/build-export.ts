/**
 * Renders an export: one repeatable read transaction reads the rows through a cursor, so the file is one snapshot and memory holds one
 * batch. Chunks are committed one by one, because the event log waits for long-running write transactions; they are not readable before the
 * export is READY. After a crash it restarts from the beginning, with new chunks.
 */

import type { FiatChoice } from "../../core/domain/exchange-rate.ts";
import {
  describeFilter,
  EXPORT_ROWS_MAX,
  type ExportFormat,
  type ExportProfile,
  type ExportSummary,
} from "../../core/domain/export.ts";
import { ExportRefusal } from "../../core/domain/export-refusal-error.ts";
import { spreadMs } from "../../core/domain/export-throttle.ts";
import type { Valuation } from "../../core/domain/fiat.ts";
import { localTime } from "../../core/domain/local-time.ts";
import type { NetworkId } from "../../core/domain/networks.ts";
import { ARCHIVE_DOCUMENTS_MAX, type DocumentArchive } from "../../core/domain/numbered-document.ts";
import { PROOF_ROWS_MAX } from "../../core/domain/proven-export.ts";
import { bookedNetworks } from "../../core/domain/real-money.ts";
import type { StatementRequest } from "../../core/domain/statement.ts";
import { defaultMerchantName } from "../../core/domain/user.ts";
import type { Chain } from "../../core/rpc/chain-client.ts";
import type { Log } from "../../core/runtime/log.ts";
import { HAS_SPARE_CORES } from "../../core/runtime/spare-cores.ts";
import { findUser } from "../../db/accounts/users.ts";
import {
  fetchExportRows,
  openExportCursor,
  type RowOrder,
  summarizeExport,
} from "../../db/exports/export-rows.ts";
import {
  deleteChunks,
  type ExportRequest,
  finishExport,
  hasProofs,
  holdExport,
  parseExportRequest,
  setExportSize,
  startExport,
} from "../../db/exports/exports.ts";
import { findDatevSettings } from "../../db/exports/merchant-books.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import { readValuation } from "../../db/exports/valuation.ts";
import { enqueue, type JobPayload } from "../../db/jobs/queue.ts";
import type { Sql, Tx } from "../../db/postgres/client.ts";
import type { Reader } from "../../db/postgres/replica.ts";
import { countChosen } from "../../db/transactions/transactions.ts";
import { findWallet, listWallets } from "../../db/wallets/wallets.ts";
import { buildArchive, numberMonth } from "./archive/build-archive.ts";
import { rendererOf } from "./choose-renderer.ts";
import { endAttempt, returnToQueue, wakeNext } from "./end-attempt.ts";
import { refuseTruncated } from "./importers/refuse-truncated.ts";
import { isLedgerComplete } from "./is-schedule-due.ts";
import { LedgerIncompleteError } from "./ledger-incomplete.ts";
import { renderProofs } from "./proof/render-proofs.ts";
import { readBatches } from "./read-batches.ts";
import type { Batches } from "./renderer.ts";
import { openStatement, refuseIncomplete, withBalances } from "./statement/build-statement.ts";
import { type ClosingDeps, closePeriod } from "./statement/close-period.ts";
import { STATEMENT_RENDERERS } from "./statement/render-statement.ts";
import {
  type Attempt,
  COLLECT_AFTER_BYTES,
  COLLECT_PAGES_AFTER_BYTES,
  noteProgress,
  writeChunks,
} from "./write-file.ts";

/** `proofChains`: nodes used only for proofs, so that refusals affect nothing else. `stop`: aborted when the process is asked to stop. */
export type ExportDeps = ClosingDeps & {
  reader: Reader;
  log: Log;
  proofChains: ReadonlyMap<NetworkId, Chain>;
  stop: AbortSignal;
};

/**
 * Files this process renders concurrently. One keeps a core busy: a second would slow down everything else on two cores and double
 * the memory. Proofs mostly wait for nodes, so one runs in addition to the others, reading block after block.
 */
const RENDERS_AT_ONCE = 1;
/** How often a waiting export is polled, in case its wake-up is lost. */
const POLL_MS = 3_000;
/** Delay of the job of a queued export, which is needed only if this process dies. */
const LINE_POLL_MS = 6_000;

/**
 * `line`: exports received while this process was at its rendering limit. Each also has a new job in the queue, in case of a crash.
 * `isLong`: one may take longer than a stopping process waits for its jobs.
 */
type Lane = { rendering: number; line: JobPayload<"build_export">[]; isLong: boolean };
const files: Lane = { rendering: 0, line: [], isLong: false };
const proofs: Lane = { rendering: 0, line: [], isLong: true };

/**
 * Renders an export, and then those that queued up meanwhile, so that waiting occupies no job slot. Throws to be retried, until the export's attempts
 * are used up and it is FAILED.
 */
export async function buildExport(deps: ExportDeps, payload: JobPayload<"build_export">): Promise<void> {
  const lane = (await hasProofs(deps.sql, payload.exportId)) ? proofs : files;
  if (lane.rendering >= RENDERS_AT_ONCE) {
    // its job runs again while it is waiting
    if (!lane.line.some(({ exportId }) => exportId === payload.exportId)) lane.line.push(payload);
    await pollAgain(deps, payload, spreadMs(LINE_POLL_MS, Math.random()));
    return;
  }
  lane.rendering += 1;
  try {
    await buildOne(deps, payload, lane);
    for (let next = lane.line.shift(); next && !deps.stop.aborted; next = lane.line.shift()) {
      // its own job runs again and reports the error
      await buildOne(deps, next, lane).catch((error: unknown) =>
        deps.log.warn({ err: error }, "export failed"),
      );
    }
  } finally {
    lane.rendering -= 1;
  }
}

function pollAgain(
  { sql }: ExportDeps,
  payload: JobPayload<"build_export">,
  afterMs = POLL_MS,
): Promise<void> {
  return enqueue(sql, "build_export", payload, { runAt: new Date(Date.now() + afterMs) });
}

/** A transaction that does nothing else locks the export until it is READY, so that no other worker touches its chunks. */
async function buildOne(
  deps: ExportDeps,
  payload: JobPayload<"build_export">,
  { isLong }: Pick<Lane, "isLong">,
): Promise<void> {
  const { sql, stop } = deps;
  const lost = new AbortController();
  const signal = isLong ? AbortSignal.any([lost.signal, stop]) : lost.signal;
  let file: ExportFile | undefined;
  let making: Promise<void> | undefined;
  try {
    const outcome = await sql.begin(async (holder) => {
      if (!(await holdExport(holder, payload.exportId))) return "held";
      const started = await sql.begin((tx) => startExport(tx, payload.exportId));
      if (!started) return "done";
      if ("waitsForUser" in started) return "waits";
      lost.signal.throwIfAborted();
      file = started.export;
      making = makeFile(deps, holder, { file, signal, keepLock: () => holder`select` });
      await making;
      return "done";
    });
    if (outcome !== "done") await pollAgain(deps, payload);
  } catch (error) {
    lost.abort(error);
    if (!file) throw error;
    // if the lock's connection or its COMMIT failed, the file is still being rendered
    await making?.catch(() => {});
    if (isLong && stop.aborted) await returnToQueue(deps, { file, payload, afterMs: 0 });
    else await endAttempt(deps, { file, payload }, error);
  }
}

async function makeFile(deps: ExportDeps, holder: Tx, attempt: Attempt): Promise<void> {
  const { log } = deps;
  const { file } = attempt;
  const startedMs = performance.now();
  const { rows, bytes } = await renderFile(deps, attempt);
  await finishExport(holder, file, { byteSize: bytes, rowsDone: rows });
  await wakeNext(holder, file);
  const ms = Math.round(performance.now() - startedMs);
  const { id: exportId, format, requestId } = file;
  log.info({ exportId, format, rows, bytes, ms, requestId }, "export ready");
}

type Rendered = { rows: number; bytes: number };

async function renderFile(deps: ExportDeps, attempt: Attempt): Promise<Rendered> {
  const { file } = attempt;
  const asked = parseExportRequest(file.request);
  const request = asked.profile === "books" ? await withBookedNetworks(deps.sql, file.userId, asked) : asked;
  if (request.statement)
    return renderStatement(
      deps,
      attempt,
      { ...request.statement, timeZone: request.timeZone, fiat: request.fiat },
      { mustBeFinal: request.isWhole ?? false },
    );
  if (request.archive) return renderArchive(deps, attempt, request.archive, request.timeZone);
  if (request.proof) return renderProven(deps, attempt, request);
  const { sql, reader } = deps;
  const { networks, before } = request.filter;
  // it was complete when the file was requested, which may be long ago: a reorganisation or a rebuild changes that
  if (request.isWhole && before && !(await isLedgerComplete(deps, { userId: file.userId, networks, before })))
    throw new LedgerIncompleteError();
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
    return writeFile(sql, attempt, tx, (batches) => render(summary, batches));
  });
}

async function withBookedNetworks(sql: Sql, userId: string, request: ExportRequest): Promise<ExportRequest> {
  const networks = bookedNetworks(request.filter.networks, await listWallets(sql, userId));
  return { ...request, filter: { ...request.filter, networks } };
}

function orderOf(profile: ExportProfile, format: ExportFormat): RowOrder {
  if (profile === "books") return "oldest";
  return format === "pdf" || format === "text" ? "confirmed-first" : "newest";
}

/** The chain is read before the snapshot, which then contains every movement up to that block. */
async function renderStatement(
  deps: ExportDeps,
  attempt: Attempt,
  request: StatementRequest,
  must: { mustBeFinal: boolean },
): Promise<Rendered> {
  const { sql, reader } = deps;
  const { file } = attempt;
  const wallet = await findWallet(sql, file.userId, request.network);
  const render = STATEMENT_RENDERERS[file.format];
  if (!wallet || !render) throw new Error(`there is no statement of ${request.network} as ${file.format}`);
  const closing = await closePeriod(deps, wallet, request.before);
  refuseIncomplete(closing, request, must);
  return reader.read(async (tx) => {
    await deleteChunks(sql, file);
    const head = await openStatement(tx, wallet, { request, closing });
    await setExportSize(sql, file.id, { rows: head.movements, matched: head.movements });
    return writeFile(sql, attempt, tx, (batches) => render(head, withBalances(head, batches)));
  });
}

/** The rows are read first, so that no snapshot is held while nodes are queried. */
async function renderProven(deps: ExportDeps, attempt: Attempt, request: ExportRequest): Promise<Rendered> {
  const { sql, reader, proofChains } = deps;
  const { file, signal, keepLock } = attempt;
  const { timeZone } = request;
  const { userId } = file;
  await deleteChunks(sql, file);
  const { rows, matched, wallets } = await reader.read(async (tx) => {
    const selection = { userId, filter: request.filter, limit: PROOF_ROWS_MAX };
    await openExportCursor(tx, selection, { detail: "accounting", order: "oldest" });
    const found = await fetchExportRows(tx, PROOF_ROWS_MAX);
    const isAll = found.length < PROOF_ROWS_MAX;
    return {
      rows: found,
      matched: isAll ? found.length : await countChosen(tx, userId, request.filter),
      wallets: await listWallets(tx, userId),
    };
  });
  await setExportSize(sql, file.id, { rows: rows.length, matched });
  const note = noteProgress(sql, file, COLLECT_AFTER_BYTES);
  const pieces = renderProofs(proofChains, { rows, wallets, timeZone, signal }, async () => {
    await keepLock();
    await note(1);
  });
  return { bytes: await writeChunks(sql, attempt, pieces), rows: rows.length };
}

/** Documents are read without a snapshot: each is complete by itself. */
async function renderArchive(
  { sql }: ExportDeps,
  attempt: Attempt,
  archive: DocumentArchive,
  timeZone: string,
): Promise<Rendered> {
  const { file } = attempt;
  const { userId } = file;
  await deleteChunks(sql, file);
  const rows = await numberMonth(sql, { userId, archive, timeZone });
  if (rows > ARCHIVE_DOCUMENTS_MAX)
    throw new ExportRefusal(
      `the month has more than ${ARCHIVE_DOCUMENTS_MAX} documents, the maximum of an archive`,
    );
  await setExportSize(sql, file.id, { rows, matched: rows });
  const note = noteProgress(sql, file, COLLECT_PAGES_AFTER_BYTES);
  const pieces = buildArchive(sql, { userId, archive, timeZone }, () => note(1));
  return { bytes: await writeChunks(sql, attempt, pieces), rows };
}

/** Renders the rows of the cursor of `tx`, and records the progress. */
async function writeFile(
  sql: Sql,
  attempt: Attempt,
  tx: Tx,
  render: (batches: Batches) => AsyncIterable<Uint8Array>,
): Promise<Rendered> {
  const { file } = attempt;
  const collectAfter = file.format === "pdf" ? COLLECT_PAGES_AFTER_BYTES : COLLECT_AFTER_BYTES;
  const note = noteProgress(sql, file, collectAfter);
  let done = 0;
  const onRead = async (rows: number) => {
    done += rows;
    await note(rows);
  };
  // eight large PDFs would take longer than a request waits for them
  const rests = !HAS_SPARE_CORES && file.format !== "pdf";
  const batches = readBatches(tx, { isAhead: HAS_SPARE_CORES, rests, onRead });
  const bytes = await writeChunks(sql, attempt, render(batches));
  return { rows: done, bytes };
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
    filters: describeFilter(filter, request.timeZone),
    rows,
    matched: rows < EXPORT_ROWS_MAX ? rows : await countChosen(tx, file.userId, filter),
    newest: times.length > 0 ? new Date(Math.max(...times)) : undefined,
    oldest: times.length > 0 ? new Date(Math.min(...times)) : undefined,
    totals,
  };
}

/** Reads the rates from the day of the first movement. */
function openFiat(
  tx: Tx,
  { userId }: ExportFile,
  fiat: FiatChoice,
  { request, times }: { request: ExportRequest; times: readonly number[] },
): Promise<Valuation> {
  const first = times.length > 0 ? new Date(Math.min(...times)) : new Date();
  return readValuation(tx, fiat, { userId, firstDay: localTime(first, request.timeZone).slice(0, 10) });
}
