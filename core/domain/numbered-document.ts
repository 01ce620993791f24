/**
 * Numbered documents: the receipt of a payment and the credit note of a refund. What is printed on them, and the form of their numbers;
 * db/documents/issue-documents.ts gives the numbers, without gaps. Pure.
 */
import type { Language } from "./language.ts";
import { localTime } from "./local-time.ts";
import type { Hex, NetworkId } from "./networks.ts";
import type { Issuer } from "./statement.ts";

export const DOCUMENT_KINDS = ["RECEIPT", "CREDIT_NOTE"] as const;
export type DocumentKind = (typeof DOCUMENT_KINDS)[number];

/** REORGANISED: the transfer left the chain. REASSIGNED: the merchant gave it to another link, or took it from this one. */
export const VOID_REASONS = ["REORGANISED", "REASSIGNED"] as const;
export type VoidReason = (typeof VOID_REASONS)[number];

/** Documents in one zip. */
export const ARCHIVE_DOCUMENTS_MAX = 5_000;
/** Which documents of a merchant a zip holds, by the time of payment or refund. */
export type DocumentArchive = {
  from: Date;
  before: Date;
  /** Of every document; undefined: each in the one it was issued in. */
  language?: Language | undefined;
};

/** What is printed, as it was when the number was given: later settings do not change a document. */
export type DocumentFacts = {
  issuer: Issuer;
  timeZone: string;
  /** The link as its payer knows it: of a payment by a reusable link, that link. */
  linkId: string;
  paymentId: string | null;
  transactionId: string | null;
  description: string;
  reference: string | null;
  /** Of a refund. */
  reason: string | null;
  payer: Hex;
  recipient: Hex;
  blockNumber: number;
};

const PREFIXES: Readonly<Record<DocumentKind, string>> = { RECEIPT: "R", CREDIT_NOTE: "C" };
const TEST_PREFIX = "TEST-";
const NUMBER_DIGITS = 5;

/** "R-2026-00042", of a test network "TEST-R-2026-00042". A merchant's numbers of a series have no gap. */
export function documentNumber({ kind, isTest, year, number }: NumberedDocument): string {
  const digits = String(number).padStart(NUMBER_DIGITS, "0");
  return `${isTest ? TEST_PREFIX : ""}${PREFIXES[kind]}-${year}-${digits}`;
}
/** Kind, year and whether it is about a test network's money name the series. */
export type NumberedDocument = { kind: DocumentKind; isTest: boolean; year: number; number: number };

/** How the counter of a year is named. */
export type DocumentSeries = DocumentKind | `TEST_${DocumentKind}`;
export function seriesOf(kind: DocumentKind, isTest: boolean): DocumentSeries {
  return isTest ? `TEST_${kind}` : kind;
}

/** The year in whose series a payment or refund is numbered. */
export function yearOf(instant: Date, timeZone: string): number {
  return Number(localTime(instant, timeZone).slice(0, 4));
}

export type PrintedDocument = NumberedDocument & {
  network: NetworkId;
  txHash: Hex;
  amountUnits: bigint;
  happenedAt: Date;
  issuedAt: Date;
  voidedAt: Date | null;
  voidReason: VoidReason | null;
  /** Of a credit note, when the money had paid a link. */
  receiptNumber: string | null;
  facts: DocumentFacts;
};
