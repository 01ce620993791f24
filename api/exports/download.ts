/** Streams an export's file chunk by chunk from the database: at most two chunks per download are in memory. */
import { setTimeout } from "node:timers/promises";
import { contentTypeOf, fileNameOf } from "../../core/domain/export.ts";
import { type Rest, restMsAfter } from "../../core/domain/export-throttle.ts";
import { statementName } from "../../core/domain/statement.ts";
import { HAS_SPARE_CORES } from "../../core/runtime/spare-cores.ts";
import { readChunk, readExportRequest } from "../../db/exports/exports.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { ApiDeps } from "../http/deps.ts";
import type { ResponseSet } from "../http/session-cookie.ts";

/** Without spare cores each chunk slows down other work: of this process, its connection and a client on the same machine. */
const REST: Rest = { share: 2, minMs: 2, maxMs: 20 };

/** The file must be READY and its owner verified. */
export function serveExport(
  { sql, log }: Pick<ApiDeps, "sql" | "log">,
  set: ResponseSet,
  file: ExportFile,
): Response {
  const headers = new Headers();
  for (const [name, value] of Object.entries(set.headers))
    if (typeof value === "string" || typeof value === "number") headers.set(name, String(value));
  headers.set("content-type", contentTypeOf(file.format));
  headers.set("content-disposition", `attachment; filename="${nameOf(file)}"`);
  headers.set("x-content-type-options", "nosniff");
  headers.set("x-export-id", file.id);
  headers.set("x-export-total", String(file.rowsMatched ?? file.rowsDone));
  headers.set("x-export-truncated", String(file.truncated));
  if (file.byteSize !== null) headers.set("content-length", String(file.byteSize));
  const onError = (error: unknown) => log.error({ err: error, exportId: file.id }, "download failed");
  return new Response(readFile(sql, file, { isAhead: HAS_SPARE_CORES, onError }), { headers });
}

function nameOf({ format, createdAt, request }: ExportFile): string {
  const asked = readExportRequest(request);
  const statement = asked?.statement && statementName({ ...asked.statement, timeZone: asked.timeZone });
  return fileNameOf(format, createdAt, statement);
}

type FileToRead = Pick<ExportFile, "id" | "attempts" | "byteSize">;
type Reading = { isAhead: boolean; onError?: (error: unknown) => void };

/**
 * A damaged or missing chunk is an error of the stream, which aborts the connection: a normal close would look like the complete file.
 *
 * If there are cores for both (`isAhead`), the next chunk is read while the current one is sent; otherwise on
 * demand, after the pause that follows the previous one.
 */
export function readFile(
  sql: Sql,
  file: FileToRead,
  { isAhead, onError }: Reading,
): ReadableStream<Uint8Array> {
  let position = 0;
  const readNext = () => {
    const piece = readChunk(sql, file, position++);
    // awaited when this chunk is due
    piece.catch(() => {});
    return piece;
  };
  let next = isAhead ? readNext() : undefined;
  let restsUntilMs = 0;
  let sent = 0;
  let isCancelled = false;
  const send = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    if (!isAhead) await restUntil(restsUntilMs);
    const startedMs = performance.now();
    const piece = await (next ?? readNext());
    if (isCancelled) return;
    if (!piece) {
      if (file.byteSize !== null && BigInt(sent) !== file.byteSize)
        throw new Error(`${sent} of ${file.byteSize} bytes are stored`);
      return controller.close();
    }
    if (isAhead) next = readNext();
    controller.enqueue(piece);
    sent += piece.byteLength;
    const endedMs = performance.now();
    restsUntilMs = endedMs + restMsAfter(endedMs - startedMs, REST);
  };
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>) =>
    send(controller).catch((error: unknown) => {
      // the client has gone
      if (isCancelled) return;
      onError?.(error);
      throw error;
    });
  const cancel = () => {
    isCancelled = true;
  };
  return new ReadableStream({ pull, cancel }, { highWaterMark: isAhead ? 1 : 0 });
}

async function restUntil(atMs: number): Promise<void> {
  const restMs = Math.round(atMs - performance.now());
  if (restMs > 0) await setTimeout(restMs);
}
