import type { ExportRow } from "../../core/domain/export.ts";

const NOON = new Date("2026-11-20T11:00:00Z");

/** A confirmed payment of 5 USDC; its third log. */
export const givenRow = (change: Partial<ExportRow> = {}): ExportRow => ({
  ...{ id: "tx_1", type: "PAYMENT_LINK", status: "CONFIRMED", amountUnits: 5_000_000n, kind: "PAYMENT" },
  ...{ network: "base-sepolia", counterparty: `0x${"11".repeat(20)}`, description: "Order 1" },
  ...{ txHash: `0x${"5a".repeat(32)}`, logIndex: 3, blockNumber: 70n, linkId: "link_1", paymentId: null },
  ...{ detectedAt: NOON, confirmedAt: NOON, settledBy: "amount", candidates: null, operationId: null },
  ...{ operationNote: null, reference: "A-1", walletAddress: null, feeWei: null, isFinalized: true },
  ...{ customerEmail: null, orderMetadata: null, refundOf: null, feeUnits: null, failureReason: null },
  ...change,
});
