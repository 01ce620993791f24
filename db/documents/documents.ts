/** Reads numbered documents: one, a merchant's list, those of a link, those of a month. */

import type { Period } from "../../core/domain/calendar.ts";
import { LINK_PLACE, readFacts } from "../../core/domain/document-facts.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import {
  type DocumentKind,
  documentNumber,
  type PrintedDocument,
} from "../../core/domain/numbered-document.ts";
import type { Tx } from "../postgres/client.ts";
import { columnsOf } from "../postgres/columns-of.ts";
import { type DocumentRow, documents, type StoredDocument } from "./schema.ts";

type ReceiptNumber = {
  receiptIsTest: boolean | null;
  receiptYear: number | null;
  receiptNumber: number | null;
};
/** With the number of the receipt that a credit note corrects. */
export type ShownDocument = StoredDocument & ReceiptNumber;
/** As `selectDocuments` returns it. */
export type ShownRow = DocumentRow & ReceiptNumber;

/** `userId`: the merchant's own alone. */
export async function findDocument(
  tx: Tx,
  { id, userId }: { id: string; userId?: string | undefined },
): Promise<ShownDocument | undefined> {
  const [row] = await tx<ShownRow[]>`
    ${selectDocuments(tx)}
    where document.id = ${id} ${userId === undefined ? tx`` : tx`and document.user_id = ${userId}`}`;
  return row && toShown(row);
}

export type DocumentFilter = {
  userId: string;
  kind?: DocumentKind | undefined;
  isVoid?: boolean | undefined;
  linkId?: string | undefined;
  period?: Period | undefined;
  /** The last document of the page before. */
  after?: string | undefined;
};

/** By the time of payment or refund, newest first; of one block, by number. */
export async function listDocuments(tx: Tx, filter: DocumentFilter, limit: number): Promise<ShownDocument[]> {
  const { userId, kind, isVoid, linkId, period, after } = filter;
  const rows = await tx<ShownRow[]>`
    ${selectDocuments(tx)}
    where owner_key(document.user_id) = owner_key(${userId}) and document.user_id = ${userId}
      ${kind === undefined ? tx`` : tx`and document.kind = ${kind}`}
      ${isVoid === undefined ? tx`` : tx`and (document.voided_at is not null) = ${isVoid}`}
      ${linkId === undefined ? tx`` : tx`and (document.link_id = ${linkId} or coalesce(document.facts ->> 'linkId', document.facts ->> ${LINK_PLACE}::int) = ${linkId})`}
      ${period === undefined ? tx`` : tx`and document.happened_at >= ${period.from} and document.happened_at < ${period.before}`}
      ${
        after === undefined
          ? tx``
          : tx`and (document.happened_at, document.number, document.id) < (select happened_at, number, id from documents where id = ${after} and user_id = ${userId})`
      }
    order by document.happened_at desc, document.number desc, document.id desc
    limit ${limit}`;
  return rows.map(toShown);
}

/** A transfer, and the link it pays. */
export type PayingTransfer = { network: NetworkId; txHash: Hex; logIndex: number; linkId: string };

/** The valid receipt of a transfer, not one of a link that it paid before. */
export async function findReceiptOf(
  tx: Tx,
  { network, txHash, logIndex, linkId }: PayingTransfer,
): Promise<ShownDocument | undefined> {
  const [row] = await tx<ShownRow[]>`
    ${selectDocuments(tx)}
    where log_digest(document.network, document.tx_hash, document.log_index)
        = log_digest(${network}, ${txHash}, ${logIndex})
      and document.network = ${network}
      and document.tx_hash = ${txHash}
      and document.log_index = ${logIndex}
      and document.link_id = ${linkId}
      and document.kind = 'RECEIPT'
      and document.voided_at is null`;
  return row && toShown(row);
}

/** Of a receipt, void ones too, oldest first. */
export async function listCreditNotes(tx: Tx, receiptId: string): Promise<ShownDocument[]> {
  const rows = await tx<ShownRow[]>`
    ${selectDocuments(tx)}
    where document.receipt_id = ${receiptId}
    order by document.year, document.is_test, document.number`;
  return rows.map(toShown);
}

export function toPrinted(document: ShownDocument): PrintedDocument {
  return { ...document, receiptNumber: receiptNumberOf(document) };
}

export function receiptNumberOf(document: ShownDocument): string | null {
  const { receiptIsTest: isTest, receiptYear: year, receiptNumber: number } = document;
  if (isTest === null || year === null || number === null) return null;
  return documentNumber({ kind: "RECEIPT", isTest, year, number });
}

export function toShown(row: ShownRow): ShownDocument {
  return { ...row, facts: readFacts(row.facts, row.linkId) };
}

export function selectDocuments(tx: Tx) {
  return tx`
    select
      ${columnsOf(tx, documents, "document")}, receipt.is_test as receipt_is_test, receipt.year as receipt_year,
      receipt.number as receipt_number
    from documents document
    left join documents receipt on receipt.id = document.receipt_id`;
}

/** Whether the `transfer` of the statement has a valid document of this kind. */
export function hasDocument(tx: Tx, kind: DocumentKind) {
  return tx`
    exists (
      select from documents document
      where ${isAboutTransfer(tx, "transfer")}
        and document.kind = ${kind}::text
        and document.voided_at is null
      -- by the index, whatever the planner thinks of the digest
      offset 0
    )`;
}

/** SQL: a document is about this transfer. By the digest that the index holds. */
export function isAboutTransfer(tx: Tx, transfer: "transfer" | "moved") {
  const its = tx(transfer);
  return tx`
    log_digest(document.network, document.tx_hash, document.log_index)
      = log_digest(${its}.network, ${its}.tx_hash, ${its}.log_index)
    and document.network = ${its}.network
    and document.tx_hash = ${its}.tx_hash
    and document.log_index = ${its}.log_index`;
}
