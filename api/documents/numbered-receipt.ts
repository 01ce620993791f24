/** Finds the numbered receipt of a transfer that pays a link, and issues it when the worker has not yet done so. */

import { findReceiptOf, type PayingTransfer, type ShownDocument } from "../../db/documents/documents.ts";
import { refreshDocuments } from "../../db/documents/issue-documents.ts";
import type { ApiDeps } from "../http/deps.ts";

/** Undefined when the transfer no longer pays the link. */
export async function findNumberedReceipt(
  { sql }: Pick<ApiDeps, "sql">,
  transfer: PayingTransfer,
): Promise<ShownDocument | undefined> {
  const found = await findReceiptOf(sql, transfer);
  if (found) return found;
  return sql.begin(async (tx) => {
    await refreshDocuments(tx, [transfer.linkId]);
    return findReceiptOf(tx, transfer);
  });
}
