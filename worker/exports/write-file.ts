/** Stores the chunks of a file as they are rendered, and records the progress. */
import { HAS_SPARE_CORES } from "../../core/runtime/spare-cores.ts";
import { insertChunk, setExportProgress } from "../../db/exports/exports.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import type { Sql } from "../../db/postgres/client.ts";

/**
 * An attempt at a file. `signal`: its lock is lost, so another attempt may have begun. `keepLock`: called while nothing else uses the lock's
 * connection.
 */
export type Attempt = { file: ExportFile; signal: AbortSignal; keepLock: () => Promise<unknown> };

/**
 * By itself the garbage collector lets the process grow by 100 MB first; a collection takes 5 to 40 ms on two cores. So it is run when the
 * process has grown by this much since the last time: less often where it occupies every core, and more often for PDF pages, which produce the
 * most garbage.
 */
export const COLLECT_AFTER_BYTES = (HAS_SPARE_CORES ? 16 : 32) * 1024 * 1024;
export const COLLECT_PAGES_AFTER_BYTES = 6 * 1024 * 1024;
/** Chunks are read and sent as a whole: small, so that an API with many downloads still responds to others. */
const CHUNK_BYTES = 64 * 1024;
const PROGRESS_EVERY_MS = 250;

let collectedAtBytes = Number.POSITIVE_INFINITY;

/** Called with the number of rows rendered since the last call. */
export function noteProgress(
  sql: Sql,
  file: ExportFile,
  collectAfter: number,
): (rows: number) => Promise<void> {
  const done = { rows: 0, reportedAtMs: performance.now() };
  return async (rows) => {
    collectWhenGrown(collectAfter);
    done.rows += rows;
    if (performance.now() - done.reportedAtMs < PROGRESS_EVERY_MS) return;
    done.reportedAtMs = performance.now();
    await setExportProgress(sql, file, done.rows);
  };
}

function collectWhenGrown(byBytes: number): void {
  const bytes = process.memoryUsage.rss();
  collectedAtBytes = Math.min(collectedAtBytes, bytes);
  if (bytes < collectedAtBytes + byBytes) return;
  Bun.gc(true);
  collectedAtBytes = process.memoryUsage.rss();
}

/** If there are cores for both, a chunk is committed while the next one is rendered. Throws once the lock is lost. */
export async function writeChunks(
  sql: Sql,
  { file, signal }: Attempt,
  pieces: AsyncIterable<Uint8Array>,
): Promise<number> {
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
    if (!HAS_SPARE_CORES) await inserted;
    position += 1;
    waiting = [];
    waitingBytes = 0;
  };
  try {
    for await (const piece of pieces) {
      signal.throwIfAborted();
      if (waitingBytes + piece.byteLength > CHUNK_BYTES) await flush();
      waiting.push(piece);
      waitingBytes += piece.byteLength;
      total += piece.byteLength;
      if (waitingBytes >= CHUNK_BYTES) await flush();
    }
    await flush();
  } catch (error) {
    // the chunks are deleted next; the rendering error is the one to report
    await inserted.catch(() => {});
    throw error;
  }
  await inserted;
  return total;
}
