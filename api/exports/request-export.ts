/** Queues an export and waits, within limits, until the worker has created it. */
import { conflict, ServiceError } from "../../core/domain/errors.ts";
import type { ExportFormat } from "../../core/domain/export.ts";
import { spreadMs } from "../../core/domain/export-throttle.ts";
import { newExportId } from "../../core/domain/ids.ts";
import { type ExportRequest, findExport, insertExport } from "../../db/exports/exports.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import { enqueue } from "../../db/jobs/queue.ts";
import type { ApiDeps } from "../http/deps.ts";

/** Fallback poll: waiting requests are normally notified. */
const REREAD_MS = 5_000;

export type Asked = {
  userId: string;
  requestId: string;
  format: ExportFormat;
  request: ExportRequest;
  /** 0: do not wait. */
  waitMs: number;
};

/** The export, READY unless the wait ended first. Throws CONFLICT when the file cannot be created, INTERNAL_ERROR when it failed. */
export async function requestExport(
  { sql, outcomes }: Pick<ApiDeps, "sql" | "outcomes">,
  { waitMs, ...asked }: Asked,
): Promise<ExportFile> {
  const id = newExportId();
  const watch = outcomes.watch(id);
  const put = async () => {
    try {
      return await sql.begin(async (tx) => {
        const file = await insertExport(tx, { id, ...asked });
        await enqueue(tx, "build_export", { exportId: id, requestId: asked.requestId });
        return file;
      });
    } catch (error) {
      watch.cancel();
      throw error;
    }
  };
  const file = await put();
  if (waitMs === 0) {
    watch.cancel();
    return file;
  }
  const read = async () => {
    const row = await findExport(sql, { id, userId: asked.userId });
    return row?.status === "READY" || row?.status === "FAILED" ? row : undefined;
  };
  const rereadMs = spreadMs(REREAD_MS, Math.random());
  const ended = await watch.settle(read, waitMs, { isJustStored: true, rereadMs });
  if (ended?.refusal)
    throw conflict(`The export was refused: ${ended.refusal}`, { field: "export", issue: "refused" });
  if (ended?.status === "FAILED") throw new ServiceError("INTERNAL_ERROR", "The export failed");
  return ended ?? file;
}
