/** Streams an export's file chunk by chunk from the database: at most two chunks per download are in memory. */
import { setTimeout } from "node:timers/promises";
import { contentTypeOf, fileNameOf } from "../../core/domain/export.ts";
import { type Rest, restMsAfter } from "../../core/domain/export-throttle.ts";
import { HAS_SPARE_CORES } from "../../core/runtime/spare-cores.ts";
import { type ExportTry, readChunk } from "../../db/exports/exports.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { ApiDeps } from "../http/deps.ts";
import type { ResponseSet } from "../http/session-cookie.ts";

/** Without spare cores a file's chunks take a third of one: 64 kB cost this process, its connection and a reader on the same machine 2 ms. */
const REST: Rest = { share: 2, minMs: 2, maxMs: 20 };

/** The file must be READY and its owner verified. */
export function serveExport({ sql }: Pick<ApiDeps, "sql">, set: ResponseSet, file: ExportFile): Response {
  const headers = new Headers();
  for (const [name, value] of Object.entries(set.headers))
    if (typeof value === "string" || typeof value === "number") headers.set(name, String(value));
  headers.set("content-type", contentTypeOf(file.format));
  headers.set("content-disposition", `attachment; filename="${fileNameOf(file.format, file.createdAt)}"`);
  headers.set("x-content-type-options", "nosniff");
  headers.set("x-export-id", file.id);
  headers.set("x-export-total", String(file.rowsMatched ?? file.rowsDone));
  headers.set("x-export-truncated", String(file.truncated));
  if (file.byteSize !== null) headers.set("content-length", String(file.byteSize));
  return new Response(readFile(sql, file, { isAhead: HAS_SPARE_CORES }), { headers });
}

/**
 * The next chunk is read while the current one is sent, where there are cores for both (`isAhead`). Elsewhere it is read when it is asked
 * for, and not before the rest that follows the one before.
 */
export function readFile(
  sql: Sql,
  file: ExportTry,
  { isAhead }: { isAhead: boolean },
): ReadableStream<Uint8Array> {
  let position = 0;
  const readNext = () => {
    const piece = readChunk(sql, file, position++);
    // awaited when it is this chunk's turn
    piece.catch(() => {});
    return piece;
  };
  let next = isAhead ? readNext() : undefined;
  let restsUntilMs = 0;
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    if (!isAhead) await restUntil(restsUntilMs);
    const startedMs = performance.now();
    const piece = await (next ?? readNext());
    if (!piece) return controller.close();
    if (isAhead) next = readNext();
    controller.enqueue(piece);
    const endedMs = performance.now();
    restsUntilMs = endedMs + restMsAfter(endedMs - startedMs, REST);
  };
  return new ReadableStream({ pull }, { highWaterMark: isAhead ? 1 : 0 });
}

async function restUntil(atMs: number): Promise<void> {
  const restMs = Math.round(atMs - performance.now());
  if (restMs > 0) await setTimeout(restMs);
}
