/** A numbered document as JSON, and as PDF. */
import { getAddress } from "viem";
import { z } from "zod";
import { LANGUAGE_TAGS } from "../../core/domain/language.ts";
import { toAmountNumber } from "../../core/domain/money.ts";
import { NETWORK_IDS, NETWORKS } from "../../core/domain/networks.ts";
import { DOCUMENT_KINDS, documentNumber, VOID_REASONS } from "../../core/domain/numbered-document.ts";
import { receiptNumberOf, type ShownDocument } from "../../db/documents/documents.ts";
import { isoTime } from "../http/envelope.ts";

export const documentSchema = z
  .object({
    id: z.string(),
    kind: z.enum(DOCUMENT_KINDS),
    number: z
      .string()
      .describe(
        "For example R-2026-00042, TEST-R-2026-00042 on a test network; without gaps per merchant, kind and year",
      ),
    status: z.enum(["VALID", "VOID"]),
    issuedAt: isoTime,
    voidedAt: isoTime.nullable(),
    voidReason: z.enum(VOID_REASONS).nullable(),
    date: isoTime.describe("The time of the block that holds the payment or refund"),
    linkId: z.string(),
    paymentId: z.string().nullable(),
    transactionId: z.string().nullable(),
    refundId: z.string().nullable(),
    receiptId: z.string().nullable().describe("For a credit note: the receipt of the refunded payment"),
    receiptNumber: z.string().nullable(),
    language: z
      .enum(LANGUAGE_TAGS)
      .nullable()
      .describe("The language it was issued in: the payer's, if known; null on old documents"),
    amount: z.number(),
    currency: z.literal("USDC"),
    description: z.string(),
    reference: z.string().nullable(),
    reason: z.string().nullable(),
    issuer: z.object({
      name: z.string(),
      postalAddress: z.string().nullable(),
      taxId: z.string().nullable(),
    }),
    network: z.enum(NETWORK_IDS),
    payer: z.string(),
    recipient: z.string(),
    transactionHash: z.string(),
    logIndex: z.int(),
    blockNumber: z.int(),
    blockHash: z.string(),
    explorerUrl: z.string(),
    pdfUrl: z
      .string()
      .describe(
        "The document as a PDF; anyone who knows its id can read it. `?lang=` chooses another language",
      ),
  })
  .meta({ id: "Document" });

export const creditNoteSchema = documentSchema
  .pick({ id: true, number: true, status: true, amount: true, date: true, pdfUrl: true })
  .meta({ id: "CreditNoteSummary" });

type Place = { config: { baseUrl: string } };

export function presentDocument(document: ShownDocument, { config }: Place): z.infer<typeof documentSchema> {
  const { facts, network } = document;
  const { name, postalAddress, taxId } = facts.issuer;
  return {
    id: document.id,
    kind: document.kind,
    number: documentNumber(document),
    status: document.voidedAt === null ? "VALID" : "VOID",
    issuedAt: document.issuedAt.toISOString(),
    voidedAt: document.voidedAt?.toISOString() ?? null,
    voidReason: document.voidReason,
    date: document.happenedAt.toISOString(),
    linkId: facts.linkId,
    paymentId: facts.paymentId,
    transactionId: facts.transactionId,
    refundId: document.refundId,
    receiptId: document.receiptId,
    receiptNumber: receiptNumberOf(document),
    language: document.language,
    amount: toAmountNumber(document.amountUnits),
    currency: "USDC",
    description: facts.description,
    reference: facts.reference,
    reason: facts.reason,
    issuer: { name, postalAddress, taxId },
    network,
    payer: getAddress(facts.payer),
    recipient: getAddress(facts.recipient),
    transactionHash: document.txHash,
    logIndex: document.logIndex,
    blockNumber: facts.blockNumber,
    blockHash: document.blockHash,
    explorerUrl: NETWORKS[network].explorerUrl + document.txHash,
    pdfUrl: pdfUrlOf(document.id, config.baseUrl),
  };
}

export function presentCreditNote(document: ShownDocument, place: Place): z.infer<typeof creditNoteSchema> {
  const { id, number, status, amount, date, pdfUrl } = presentDocument(document, place);
  return { id, number, status, amount, date, pdfUrl };
}

export function pdfUrlOf(id: string, baseUrl: string): string {
  return `${baseUrl}/api/v1/public/documents/${id}?format=pdf`;
}
