/** Reads numbered documents: one, a merchant's list, those of a link, those of a month. */

import { LINK_PLACE, readFacts } from "../../core/domain/document-facts.ts";
import type { Period } from "../../core/domain/local-days.ts";
import type { Hex, NetworkId } from "../../core/domain/networks.ts";
import {
  DOCUMENT_KINDS,
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
/** Includes the number of the receipt that a credit note corrects. */
export type ShownDocument = StoredDocument & ReceiptNumber;
/** As `selectDocuments` returns it. */
export type ShownRow = DocumentRow & ReceiptNumber;

/** `userId`: only this merchant's documents. */
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
  /** The last document of the previous page. */
  after?: string | undefined;
};

/**
 * By the time of payment or refund, newest first; of one block, by number. Each part of the result is read in this order from an
 * index that contains only documents matching the filter, and only as far as the page.
 */
export async function listDocuments(tx: Tx, filter: DocumentFilter, limit: number): Promise<ShownDocument[]> {
  const { userId, period, after } = filter;
  const parts = partsOf(tx, filter).map(
    (part) => tx`(
      select ${columnsOf(tx, documents, "document")}
      from ${part}
        ${period === undefined ? tx`` : tx`and document.happened_at >= ${period.from} and document.happened_at < ${period.before}`}
        ${
          after === undefined
            ? tx``
            : tx`and (document.happened_at, document.number, document.id) < (select happened_at, number, id from documents where id = ${after} and user_id = ${userId})`
        }
      -- in the order of the indexes alone, and the whole of a block: a part is never sorted as a whole
      order by document.happened_at desc
      fetch first ${limit} rows with ties
    )`,
  );
  const all = parts.reduce((joined, part) => tx`${joined} union all ${part}`);
  const rows = await tx<ShownRow[]>`
    ${selectDocuments(tx, tx`(${all})`)}
    order by document.happened_at desc, document.number desc, document.id desc
    limit ${limit}`;
  return rows.map(toShown);
}

/**
 * Parts, each read from its own index, that together contain every matching document once. No redundant conditions, such as the merchant's id in
 * addition to the key: the planner would expect fewer rows than a page, and read all of them to sort.
 */
function partsOf(tx: Tx, { userId, kind, isVoid, linkId }: DocumentFilter) {
  const isOwn = tx`owner_key(document.user_id) = owner_key(${userId})`;
  // the link as its payer knows it, written as in the indexes
  const payersLink = tx`coalesce(document.facts ->> 'linkId', document.facts ->> ${tx.unsafe(String(LINK_PLACE))})`;
  const validity =
    isVoid === undefined
      ? tx``
      : isVoid
        ? tx`and document.voided_at is not null`
        : tx`and document.voided_at is null`;
  if (linkId === undefined) {
    const kinds = isVoid && kind === undefined ? DOCUMENT_KINDS : [kind];
    return kinds.map((one) => tx`documents document where ${isOwn} ${isOfKind(tx, one)} ${validity}`);
  }
  return [
    // few of any kind, so not combined with an index of all void ones
    tx`(
        select ${columnsOf(tx, documents)}
        from documents
        where link_moment(link_id) = link_moment(${linkId}) and link_id = ${linkId}
        offset 0
      ) document
      where document.user_id = ${userId} ${isOfKind(tx, kind)} ${validity}`,
    // by a function: of an operator the planner would expect fewer rows than a page here, too
    tx`documents document
      where link_moment(${payersLink}) = link_moment(${linkId}) and texteq(${payersLink}, ${linkId})
        and ${payersLink} <> document.link_id
        and exists (select from payment_links where id = ${linkId} and user_id = ${userId})
        ${isOfKind(tx, kind)} ${validity}`,
  ];
}

/** Written as literals: with a parameter, a generic plan could not use the index of one kind. */
function isOfKind(tx: Tx, kind: DocumentKind | undefined) {
  if (kind === undefined) return tx``;
  return kind === "RECEIPT" ? tx`and document.kind = 'RECEIPT'` : tx`and document.kind = 'CREDIT_NOTE'`;
}

/** A transfer, and the link it pays. */
export type PayingTransfer = { network: NetworkId; txHash: Hex; logIndex: number; linkId: string };

/** The valid receipt of a transfer, not one for a link that it paid earlier. */
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

/** The credit notes of a receipt, including void ones, oldest first. */
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

/** `source`: of the documents, when not of all. */
export function selectDocuments(tx: Tx, source = tx`documents`) {
  return tx`
    select
      ${columnsOf(tx, documents, "document")}, receipt.is_test as receipt_is_test, receipt.year as receipt_year,
      receipt.number as receipt_number
    from ${source} document
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
