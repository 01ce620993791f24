/**
 * The job that issues receipts and credit notes for confirmed payments and refunds, and voids those whose transfer left the chain or moved
 * (db/documents/issue-documents.ts).
 */
import type { Log } from "../../core/runtime/log.ts";
import { findReceiptOf, type PayingTransfer, type ShownDocument } from "../../db/documents/documents.ts";
import { refreshDocuments } from "../../db/documents/issue-documents.ts";
import type { JobPayload } from "../../db/jobs/queue.ts";
import type { Sql } from "../../db/postgres/client.ts";

/** May run twice: what has its document gets no other. */
export async function issueDocuments(
  { sql, log }: { sql: Sql; log: Log },
  { linkIds }: JobPayload<"issue_documents">,
): Promise<void> {
  const { issued, voided } = await sql.begin(async (tx) => {
    // its widest statement takes 10 ms to plan and 1 ms to run
    await tx`select set_config('plan_cache_mode', 'force_generic_plan', true)`;
    return refreshDocuments(tx, linkIds);
  });
  log.debug({ issued: issued.length }, "documents numbered");
  if (voided.length > 0)
    log.warn({ documents: voided }, "documents voided: their transfers were reorganised away or reassigned");
}

/** Undefined when the transfer does not pay the link any more. */
export async function findNumberedReceipt(
  sql: Sql,
  transfer: PayingTransfer,
): Promise<ShownDocument | undefined> {
  return sql.begin(async (tx) => {
    await refreshDocuments(tx, [transfer.linkId]);
    return findReceiptOf(tx, transfer);
  });
}
