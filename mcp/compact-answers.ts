/** Links, payments and transactions in tool results: the fields a model needs, without empty ones. */
import { z } from "zod";
import type { LinkPaymentList, PaymentLink, Transaction } from "../sdk/wire.ts";

/** An id never becomes another path of the service. */
export const linkId = z
  .string()
  .regex(/^link_[A-Za-z0-9_-]{22}$/, "must be a link's id: link_ and 22 characters")
  .describe("link_…");

type Compact = Record<string, unknown>;

export function compactLink(link: PaymentLink): Compact {
  const { amount, maxPayments, minAmount, maxAmount, settledBy, refundedAmount, metadata } = link;
  return withoutEmpty({
    id: link.id,
    status: link.status,
    isPaid: link.status === "PAID",
    amount,
    minAmount,
    maxAmount,
    currency: link.currency,
    network: link.network,
    isTestMoney: link.network === "base-sepolia" ? true : null,
    description: link.description,
    reference: link.reference,
    url: link.url,
    aiUrl: link.aiUrl,
    exception: link.exception,
    settledBy,
    paidAt: link.paidAt,
    expiresAt: link.expiresAt,
    refundedAmount: refundedAmount === 0 ? null : refundedAmount,
    metadata: Object.keys(metadata).length === 0 ? null : metadata,
    maxPayments: maxPayments === 1 ? null : (maxPayments ?? "unlimited"),
  });
}

export function compactPayment(payment: LinkPaymentList["payments"][number]): Compact {
  const { linkId, status, amount, refundedAmount, payer, transactionHash, paidAt } = payment;
  return withoutEmpty({ linkId, status, amount, refundedAmount, payer, transactionHash, paidAt });
}

export function compactTransaction(row: Transaction): Compact {
  const { linkId, reference, failureReason } = row.metadata;
  return withoutEmpty({
    id: row.id,
    type: row.type,
    status: row.status,
    amount: row.amount,
    network: row.network,
    description: row.description,
    otherParty: row.clientWalletAddress,
    transactionHash: row.transactionHash,
    time: row.confirmedAt ?? row.detectedAt,
    linkId,
    reference,
    failureReason,
    candidates: row.candidates.length === 0 ? null : row.candidates,
  });
}

function withoutEmpty(value: Compact): Compact {
  return Object.fromEntries(Object.entries(value).filter(([, one]) => one !== null && one !== undefined));
}
