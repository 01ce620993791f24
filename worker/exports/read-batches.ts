/** Reads the rows of an export in batches from the cursor of its transaction. */
import { setImmediate, setTimeout } from "node:timers/promises";
import type { ExportRow } from "../../core/domain/export.ts";
import { type Rest, restMsAfter } from "../../core/domain/export-throttle.ts";
import { HAS_SPARE_CORES } from "../../core/runtime/spare-cores.ts";
import { fetchExportRows } from "../../db/exports/export-rows.ts";
import type { Tx } from "../../db/postgres/client.ts";

/** Batch size: rendering a batch of a PDF blocks the event loop for about 15 ms with spare cores, 3 ms otherwise. */
export const BATCH_ROWS = HAS_SPARE_CORES ? 250 : 50;

/** With these pauses a file takes less than two and a half times as long. */
const REST: Rest = { share: 1.4, minMs: 1, maxMs: 50 };

export type Reading = {
  /** The database reads a batch while the previous one is rendered, which makes the export faster but all other requests slower. */
  isAhead: boolean;
  /** Pauses after each batch, so that an export keeps less than one core busy. */
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
    // rendering blocks the event loop; let the other jobs of this process run between batches
    await (rests ? setTimeout(restMsAfter(performance.now() - startedMs, REST)) : setImmediate());
    if (isLast) return;
    if (isAhead) continue;
    startedMs = performance.now();
    coming = startFetch(tx);
  }
}

function startFetch(tx: Tx): Promise<readonly ExportRow[]> {
  const rows = fetchExportRows(tx, BATCH_ROWS);
  // thrown where it is awaited, which does not happen if rendering fails first
  rows.catch(() => {});
  return rows;
}
