/**
 * Issues numbered documents for payments and refunds: the next number of the merchant's series, in the transaction that stores the
 * document, so that a series has no gaps. Computed from the ledger as a whole, so one call serves a payment, a refund, a reorganisation
 * and a retry. Needs a transaction of its own.
 */

import { shortenFacts } from "../../core/domain/document-facts.ts";
import { newDocumentId } from "../../core/domain/ids.ts";
import { DEFAULT_LANGUAGE } from "../../core/domain/language.ts";
import { NETWORKS } from "../../core/domain/networks.ts";
import {
  type DocumentFacts,
  type DocumentKind,
  seriesOf,
  yearOf,
} from "../../core/domain/numbered-document.ts";
import { defaultMerchantName } from "../../core/domain/user.ts";
import { canAllProcesses } from "../health/process-heartbeats.ts";
import type { Tx } from "../postgres/client.ts";
import { toByteaText } from "../postgres/hex-bytes.ts";
import { type DueDocument, findDueCreditNotes, findDueReceipts, voidDocuments } from "./due-documents.ts";

export type IssuedDocuments = { issued: string[]; voided: string[] };

export async function refreshDocuments(tx: Tx, linkIds: readonly string[]): Promise<IssuedDocuments> {
  await lockDocuments(tx, linkIds);
  const voided = await voidDocuments(tx, linkIds);
  const receipts = await issueDocuments(tx, "RECEIPT", await findDueReceipts(tx, linkIds));
  const notes = await issueDocuments(tx, "CREDIT_NOTE", await findDueCreditNotes(tx, linkIds));
  return { issued: [...receipts, ...notes], voided };
}

/**
 * Serialised per link, in a fixed order. The ledger may proceed: its commit requests these documents again, and that call waits for this
 * one and sees what it stored. Locking the links themselves would write a WAL record for each.
 */
async function lockDocuments(tx: Tx, linkIds: readonly string[]): Promise<void> {
  await tx`
    select pg_advisory_xact_lock(hashtext('documents of link'), key)
    from (
      select distinct hashtext(id) as key
      from unnest(${[...linkIds]}::text[]) as link (id)
      order by key
    ) locks`;
}

/**
 * Numbers these payments or refunds in their order and stores their documents, in one statement. The counter's row is locked until the
 * transaction ends, so the next transaction continues after what was committed. Throws when one already has a document; no number is used then.
 */
export async function issueDocuments(
  tx: Tx,
  kind: DocumentKind,
  due: readonly DueDocument[],
): Promise<string[]> {
  if (due.length === 0) return [];
  const isShort = await canAllProcesses(tx, "shortFacts");
  const given = due.map((one, place) => toGiven(kind, one, { place, isShort }));
  const rows = await tx<{ id: string }[]>`
    with given as (
      select *, row_number() over (partition by user_id, series, year order by place) as step
      from jsonb_to_recordset(${JSON.stringify(given)}::text::jsonb) as given (
        place int, id text, user_id text, series text, is_test boolean, year int, link_id text, network text, tx_hash bytea,
        log_index int, block_hash bytea, refund_id text, receipt_id text, amount_units numeric, happened_at timestamptz, facts jsonb, language text
      )
    ),
    -- always in one order, so that two transactions numbering documents of the same merchants cannot deadlock
    counted as (
      insert into document_counters as counter (user_id, kind, year, last_number)
      select user_id, series, year, count(*)
      from given
      group by user_id, series, year
      order by user_id, series, year
      on conflict (user_id, kind, year) do update set last_number = counter.last_number + excluded.last_number
      returning user_id, kind, year, last_number
    )
    insert into documents (
      id, user_id, kind, is_test, year, number, link_id, network, tx_hash, log_index, block_hash, refund_id, receipt_id,
      amount_units, happened_at, facts, language
    )
    select
      given.id, given.user_id, ${kind}::text, given.is_test, given.year,
      counted.last_number
        - (
          select count(*)
          from given all_of
          where all_of.user_id = given.user_id and all_of.series = given.series and all_of.year = given.year
        )
        + given.step,
      given.link_id, given.network, given.tx_hash, given.log_index, given.block_hash, given.refund_id, given.receipt_id,
      given.amount_units, given.happened_at, given.facts, given.language
    from given
    join counted on counted.user_id = given.user_id and counted.kind = given.series and counted.year = given.year
    order by given.place
    returning id`;
  return rows.map(({ id }) => id);
}

function toGiven(
  kind: DocumentKind,
  due: DueDocument,
  { place, isShort }: { place: number; isShort: boolean },
) {
  const { userId, linkId, network, txHash, logIndex, blockHash, refundId, receiptId } = due;
  const { isTestnet: isTest } = NETWORKS[network];
  const facts = factsOf(due);
  return {
    place,
    id: newDocumentId(),
    user_id: userId,
    series: seriesOf(kind, isTest),
    is_test: isTest,
    year: yearOf(due.happenedAt, zoneOf(due)),
    link_id: linkId,
    network,
    tx_hash: toByteaText(txHash),
    log_index: logIndex,
    block_hash: toByteaText(blockHash),
    refund_id: refundId,
    receipt_id: receiptId,
    amount_units: due.amountUnits.toString(),
    happened_at: due.happenedAt.toISOString(),
    facts: isShort ? shortenFacts(facts, linkId) : facts,
    language: due.language ?? DEFAULT_LANGUAGE,
  };
}

function factsOf(due: DueDocument): DocumentFacts {
  const { postalAddress, taxId, email } = due;
  return {
    issuer: {
      name: due.legalName ?? due.displayName ?? defaultMerchantName(email),
      postalAddress,
      taxId,
      email,
    },
    timeZone: zoneOf(due),
    linkId: due.parentId ?? due.linkId,
    paymentId: due.paymentId,
    transactionId: due.transactionId,
    description: due.description,
    reference: due.reference,
    reason: due.reason,
    payer: due.payer,
    recipient: due.recipient,
    blockNumber: Number(due.blockNumber),
  };
}

function zoneOf({ timeZone }: DueDocument): string {
  return timeZone ?? "UTC";
}
