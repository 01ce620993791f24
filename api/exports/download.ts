/** Streams an export's file chunk by chunk from the database: at most two chunks per download are in memory. */
import { contentTypeOf, fileNameOf } from "../../core/domain/export.ts";
import { type ExportTry, readChunk } from "../../db/exports/exports.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import type { Sql } from "../../db/postgres/client.ts";
import type { ApiDeps } from "../http/deps.ts";
import type { ResponseSet } from "../http/session-cookie.ts";

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
  return new Response(readFile(sql, file), { headers });
}

/** The next chunk is read while the current one is sent. */
function readFile(sql: Sql, file: ExportTry): ReadableStream<Uint8Array> {
  let position = 0;
  const readNext = () => {
    const piece = readChunk(sql, file, position++);
    // awaited when it is this chunk's turn
    piece.catch(() => {});
    return piece;
  };
  let next = readNext();
  return new ReadableStream({
    async pull(controller) {
      const piece = await next;
      if (!piece) return controller.close();
      next = readNext();
      controller.enqueue(piece);
    },
  });
}
