/** Serves an export's file piece by piece from the database: what is in memory is one piece a download. */
import { contentTypeOf, fileNameOf } from "../../core/domain/export.ts";
import type { Sql } from "../../db/client.ts";
import { readChunk } from "../../db/exports.ts";
import type { ExportFile } from "../../db/schema.ts";
import type { ApiDeps } from "../http/deps.ts";
import type { ResponseSet } from "../http/session-cookie.ts";

/** The file must be READY and its owner checked. */
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
  return new Response(readFile(sql, file.id), { headers });
}

function readFile(sql: Sql, exportId: string): ReadableStream<Uint8Array> {
  let position = 0;
  return new ReadableStream({
    async pull(controller) {
      const piece = await readChunk(sql, exportId, position);
      position += 1;
      if (piece) controller.enqueue(piece);
      else controller.close();
    },
  });
}
