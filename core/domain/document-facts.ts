/**
 * How a document's facts are stored: by position instead of by name, without what the document's row already holds, bytes in base64. Takes a
 * third of the space of named fields; written once per payment, to the table and to the WAL. Pure.
 */

import type { Hex } from "./networks.ts";
import type { DocumentFacts } from "./numbered-document.ts";

const ZONE = "UTC";
/** Stored when the document has no row in the history. */
const NO_TRANSACTION = "";

export type ShortFacts = (string | number | null)[];
/** By name in documents of earlier versions, and while processes are running that can read no other form. */
export type StoredFacts = DocumentFacts | ShortFacts;

/** `linkId`: of the document's row. */
export function shortenFacts(facts: DocumentFacts, linkId: string): ShortFacts {
  const { issuer, timeZone, paymentId, transactionId } = facts;
  const places = [
    issuer.name,
    issuer.email,
    facts.description,
    paymentId,
    toBase64(facts.payer),
    toBase64(facts.recipient),
    facts.blockNumber,
    facts.linkId === linkId ? null : facts.linkId,
    timeZone === ZONE ? null : timeZone,
    transactionId === historyIdOf(paymentId) ? null : (transactionId ?? NO_TRANSACTION),
    facts.reference,
    facts.reason,
    issuer.postalAddress,
    issuer.taxId,
  ];
  return places.slice(0, places.findLastIndex((place) => place !== null) + 1);
}

export function readFacts(stored: StoredFacts, linkId: string): DocumentFacts {
  if (!Array.isArray(stored)) return stored;
  const text = (place: number) => (stored[place] ?? null) as string | null;
  const paymentId = text(3);
  const transactionId = text(9) ?? historyIdOf(paymentId);
  return {
    issuer: { name: text(0) ?? "", postalAddress: text(12), taxId: text(13), email: text(1) ?? "" },
    timeZone: text(8) ?? ZONE,
    linkId: text(7) ?? linkId,
    paymentId,
    transactionId: transactionId === NO_TRANSACTION ? null : transactionId,
    description: text(2) ?? "",
    reference: text(10),
    reason: text(11),
    payer: toHex(text(4) ?? ""),
    recipient: toHex(text(5) ?? ""),
    blockNumber: Number(stored[6]),
  };
}

/** Index of the id by which the payer knows the link, when it differs from the row's. */
export const LINK_PLACE = 7;

/** What `history_id` of the database makes of a payment's id. */
function historyIdOf(paymentId: string | null): string | null {
  return paymentId === null ? null : `txn_${paymentId.slice(4)}`;
}

const toBase64 = (bytes: Hex) => Buffer.from(bytes.slice(2), "hex").toString("base64url");
const toHex = (text: string): Hex => `0x${Buffer.from(text, "base64url").toString("hex")}`;
