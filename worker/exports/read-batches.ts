/** The rows of an export, a batch at a time, from the cursor of its transaction. */
import { setImmediate, setTimeout } from "node:timers/promises";
import type { ExportRow } from "../../core/domain/export.ts";
import { HAS_SPARE_CORES } from "../../core/runtime/spare-cores.ts";
import { fetchExportRows } from "../../db/exports/export-rows.ts";
import type { Tx } from "../../db/postgres/client.ts";

/** Rendering holds the event loop for a batch: some 15 ms of a PDF where there are spare cores, 6 ms elsewhere. */
export const BATCH_ROWS = HAS_SPARE_CORES ? 250 : 100;

/** Of the time that a batch took: with the rest a file takes less than twice as long. */
const REST_SHARE = 0.7;
const REST_MIN_MS = 1;
/** A database that does not answer is not waited for twice. */
const REST_MAX_MS = 50;

export type Reading = {
  /** The database reads a batch while the one before it is rendered: one export is faster, and every request beside it slower. */
  isAhead: boolean;
  /** Rests after each batch, so that an export keeps less than one core busy. */
  rests: boolean;
  /** Called when a batch is rendered. */
  onRead: (rows: number) => Promise<void>;
};

export async function* readBatches(
  tx: Tx,
  { isAhead, rests, onRead }: Reading,
): AsyncGenerator<readonly ExportRow[]> {
  let startedMs = performance.now();
  let coming = startFetch(tx);
  for (;;) {
    const rows = await coming;
    if (rows.length === 0) return;
    const isLast = rows.length < BATCH_ROWS;
    if (isAhead && !isLast) coming = startFetch(tx);
    yield rows;
    await onRead(rows.length);
    // rendering holds the event loop; the other jobs of this process get their turn between batches
    await (rests ? setTimeout(restMsAfter(performance.now() - startedMs)) : setImmediate());
    if (isLast) return;
    if (isAhead) continue;
    startedMs = performance.now();
    coming = startFetch(tx);
  }
}

/** How long an export rests after a batch that took `workedMs`, in whole milliseconds. */
export function restMsAfter(workedMs: number): number {
  return Math.min(REST_MAX_MS, Math.max(REST_MIN_MS, Math.round(workedMs * REST_SHARE)));
}

function startFetch(tx: Tx): Promise<readonly ExportRow[]> {
  const rows = fetchExportRows(tx, BATCH_ROWS);
  // thrown where it is awaited, which is never when rendering fails before
  rows.catch(() => {});
  return rows;
}
