/** The rows of an export, a batch at a time, from the cursor of its transaction. */
import { availableParallelism } from "node:os";
import { setImmediate } from "node:timers/promises";
import type { ExportRow } from "../../core/domain/export.ts";
import { fetchExportRows } from "../../db/exports/rows.ts";
import type { Tx } from "../../db/postgres/client.ts";

/**
 * On two cores an export keeps one of them busy, now the database, now this process, so that other requests find the other one free. Reading
 * ahead makes one export faster and every request beside it slower.
 */
export const HAS_SPARE_CORES = availableParallelism() > 2;

/** Rendering holds the event loop for a batch: some 15 ms of a PDF. */
export const BATCH_ROWS = 250;

/** `isAhead`: the database reads a batch while the one before it is rendered. `onRead`: called when a batch is rendered. */
export async function* readBatches(
  tx: Tx,
  { isAhead, onRead }: { isAhead: boolean; onRead: (rows: number) => Promise<void> },
): AsyncGenerator<readonly ExportRow[]> {
  let coming = startFetch(tx);
  for (;;) {
    const rows = await coming;
    if (rows.length === 0) return;
    const isLast = rows.length < BATCH_ROWS;
    if (isAhead && !isLast) coming = startFetch(tx);
    yield rows;
    await onRead(rows.length);
    // rendering holds the event loop; the other jobs of this process get their turn between batches
    await setImmediate();
    if (isLast) return;
    if (!isAhead) coming = startFetch(tx);
  }
}

function startFetch(tx: Tx): Promise<readonly ExportRow[]> {
  const rows = fetchExportRows(tx, BATCH_ROWS);
  // thrown where it is awaited, which is never when rendering fails before
  rows.catch(() => {});
  return rows;
}
