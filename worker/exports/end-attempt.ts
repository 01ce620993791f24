/** What becomes of an export whose attempt was interrupted: it is tried again, waits, is refused or FAILED. */
import { EXPORT_ATTEMPTS_MAX, LEDGER_WAIT_DAYS } from "../../core/domain/export-lifetime.ts";
import { ExportRefusal } from "../../core/domain/export-refusal-error.ts";
import type { Log } from "../../core/runtime/log.ts";
import {
  deleteChunks,
  failExport,
  findWaitingExport,
  refuseExport,
  returnExport,
} from "../../db/exports/exports.ts";
import type { ExportFile } from "../../db/exports/schema.ts";
import { enqueue, type JobPayload } from "../../db/jobs/queue.ts";
import type { Sql, Tx } from "../../db/postgres/client.ts";
import { notify } from "../../db/postgres/notifications.ts";
import { LedgerIncompleteError } from "./ledger-incomplete.ts";

const LEDGER_POLL_MS = 60_000;
const DAY_MS = 86_400_000;

/** Throws the error again where the attempt is repeated by its job. */
export async function endAttempt(
  deps: { sql: Sql; log: Log },
  { file, payload }: { file: ExportFile; payload: JobPayload<"build_export"> },
  error: unknown,
): Promise<void> {
  const waitsUntilMs = file.createdAt.getTime() + LEDGER_WAIT_DAYS * DAY_MS;
  if (error instanceof LedgerIncompleteError && Date.now() < waitsUntilMs) {
    await returnToQueue(deps, { file, payload, afterMs: LEDGER_POLL_MS });
    deps.log.info({ exportId: file.id }, "export waits for a complete ledger");
  } else await failOrRetry(deps, file, error);
}

/** The attempt does not count, and another worker may begin it again. */
export async function returnToQueue(
  { sql }: { sql: Sql },
  { file, payload, afterMs }: { file: ExportFile; payload: JobPayload<"build_export">; afterMs: number },
): Promise<void> {
  await sql.begin(async (tx) => {
    if (!(await returnExport(tx, file))) return;
    await deleteChunks(tx, file);
    await enqueue(tx, "build_export", payload, { runAt: new Date(Date.now() + afterMs) });
  });
}

async function failOrRetry(
  { sql, log }: { sql: Sql; log: Log },
  file: ExportFile,
  error: unknown,
): Promise<void> {
  const status = await sql.begin(async (tx) => {
    if (error instanceof ExportRefusal) {
      await refuseExport(tx, file, error.message);
      await deleteChunks(tx, file);
      await wakeNext(tx, file);
      return "REFUSED";
    }
    const message = error instanceof Error ? error.name : "Error";
    const after = await failExport(tx, file, { error: message, attemptsMax: EXPORT_ATTEMPTS_MAX });
    // undefined if it became READY and only the response was lost
    if (after) await deleteChunks(tx, file);
    await wakeNext(tx, file);
    return after;
  });
  const label = { exportId: file.id, requestId: file.requestId };
  if (status === "REFUSED") return log.info({ ...label, reason: String(error) }, "export refused");
  if (status !== "FAILED") throw error;
  log.error({ ...label, err: error }, "export failed permanently");
}

/** Notifies requests waiting for this export, and starts the user's next one. */
export async function wakeNext(tx: Tx, file: ExportFile): Promise<void> {
  await notify(tx, [file.id]);
  const next = await findWaitingExport(tx, file.userId);
  if (next) await enqueue(tx, "build_export", { exportId: next.id });
}
