/**
 * The job that issues receipts and credit notes for confirmed payments and refunds, and voids those whose transfer was reorganised away or reassigned
 * (db/documents/issue-documents.ts).
 */
import type { Log } from "../../core/runtime/log.ts";
import { findReceiptOf, type PayingTransfer, type ShownDocument } from "../../db/documents/documents.ts";
import { refreshDocuments } from "../../db/documents/issue-documents.ts";
import type { JobPayload } from "../../db/jobs/queue.ts";
import type { Sql } from "../../db/postgres/client.ts";

/** May run twice: nothing gets a second document. */
export async function issueDocuments(
  { sql, log }: { sql: Sql; log: Log },
  { linkIds }: JobPayload<"issue_documents">,
): Promise<void> {
  const { issued, voided } = await sql.begin(async (tx) => {
    // its largest statement takes 10 ms to plan and 1 ms to run
    await tx`select set_config('plan_cache_mode', 'force_generic_plan', true)`;
    return refreshDocuments(tx, linkIds);
  });
  log.debug({ issued: issued.length }, "documents numbered");
  if (voided.length > 0)
    log.warn({ documents: voided }, "documents voided: their transfers were reorganised away or reassigned");
}

/** Undefined when the transfer no longer pays the link. */
export async function findNumberedReceipt(
  sql: Sql,
  transfer: PayingTransfer,
): Promise<ShownDocument | undefined> {
  return sql.begin(async (tx) => {
    await refreshDocuments(tx, [transfer.linkId]);
    return findReceiptOf(tx, transfer);
  });
}
