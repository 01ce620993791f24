/** A receipt as JSON. */
import { getAddress } from "viem";
import { z } from "zod";
import { toAmountNumber } from "../../core/domain/money.ts";
import { NETWORK_IDS, NETWORKS } from "../../core/domain/networks.ts";
import type { Receipt } from "../../core/domain/receipt.ts";
import { creditNoteSchema } from "../documents/present-document.ts";
import { isoTime } from "../http/envelope.ts";
import { settledBy } from "../http/settled-by-schema.ts";

export const publicReceiptSchema = z
  .object({
    linkId: z.string(),
    paymentId: z.string().nullable().describe("For an x402 payment; null for a plain transfer"),
    transactionId: z.string().nullable(),
    status: z.literal("PAID"),
    merchantName: z.string(),
    description: z.string(),
    reference: z.string().nullable(),
    amount: z.number().describe("The amount received, in USDC"),
    currency: z.literal("USDC"),
    refundedAmount: z.number(),
    network: z.enum(NETWORK_IDS),
    payer: z.string(),
    recipient: z.string(),
    transactionHash: z.string(),
    logIndex: z.int(),
    blockNumber: z.int(),
    explorerUrl: z.string(),
    paidAt: isoTime,
    settledBy,
    documentId: z.string().nullable(),
    documentNumber: z
      .string()
      .nullable()
      .describe("For example R-2026-00042, TEST-R-2026-00042 on a test network"),
    creditNotes: z.array(creditNoteSchema).describe("Documents of refunds of this payment"),
  })
  .meta({ id: "PublicReceipt" });
export const receiptSchema = publicReceiptSchema
  .extend({
    customerEmail: z.string().nullable(),
    metadata: z.record(z.string(), z.string()),
  })
  .meta({ id: "Receipt" });

/** The callers add the numbered documents. */
type Numbered = "documentId" | "documentNumber" | "creditNotes";

export function presentPublicReceipt(receipt: Receipt): Omit<z.infer<typeof publicReceiptSchema>, Numbered> {
  return {
    linkId: receipt.linkId,
    paymentId: receipt.paymentId,
    transactionId: receipt.transactionId,
    status: "PAID",
    merchantName: receipt.merchantName,
    description: receipt.description,
    reference: receipt.reference,
    amount: toAmountNumber(receipt.amountUnits),
    currency: "USDC",
    refundedAmount: toAmountNumber(receipt.refundedUnits),
    network: receipt.network,
    payer: getAddress(receipt.payer),
    recipient: getAddress(receipt.recipient),
    transactionHash: receipt.txHash,
    logIndex: receipt.logIndex,
    blockNumber: Number(receipt.blockNumber),
    explorerUrl: NETWORKS[receipt.network].explorerUrl + receipt.txHash,
    paidAt: receipt.paidAt.toISOString(),
    settledBy: receipt.settledBy,
  };
}

/** As the merchant sees it. */
export function presentReceipt(receipt: Receipt): Omit<z.infer<typeof receiptSchema>, Numbered> {
  const { customerEmail, metadata } = receipt;
  return { ...presentPublicReceipt(receipt), customerEmail, metadata };
}
