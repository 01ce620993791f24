/**
 * The contents of a test event: a sample message of another type, about a link or transaction that does not exist. It is nested in `sample` under
 * the test type, so that no receiver mistakes it for a payment. Pure.
 */
import type { LinkStatus } from "./link.ts";
import { type LinkRow, presentSingleLink } from "./present-link.ts";
import { PAID_ONCE } from "./reusable-link.ts";
import { type HistoryRow, presentTransaction } from "./transaction.ts";

const LINK_ID = "link_sample0000000000000000";
const TRANSACTION_ID = "tx_sample0000000000000000";
const AMOUNT_UNITS = 12_340_000n;
const CREATED = new Date("2026-01-01T12:00:00Z");
const PAID = new Date("2026-01-01T12:05:00Z");
const TX_HASH = `0x${"5a".repeat(32)}`;

const STATUS_AFTER: Record<string, LinkStatus> = {
  "payment_link.pending": "PENDING",
  "payment_link.paid": "PAID",
  "payment_link.expired": "EXPIRED",
  "payment_link.cancelled": "CANCELLED",
};

export function sampleEvent(type: string, addresses: { baseUrl: string }) {
  const [subject] = type.split(".");
  if (subject === "payment_link")
    return { type, data: { subjectId: LINK_ID, link: presentSingleLink(sampleLink(type), addresses) } };
  if (subject === "transaction")
    return { type, data: { subjectId: TRANSACTION_ID, transaction: presentTransaction(SAMPLE_TRANSACTION) } };
  return { type, data: { subjectId: "sample" } };
}

function sampleLink(type: string): LinkRow {
  const status = STATUS_AFTER[type] ?? "ACTIVE";
  const isPaid = status === "PAID";
  return {
    id: LINK_ID,
    network: "base-sepolia",
    description: "Sample order",
    status,
    exception: "NONE",
    ...PAID_ONCE,
    amountUnits: AMOUNT_UNITS,
    refundedUnits: 0n,
    parentId: null,
    isDiscoverable: false,
    settledBy: isPaid ? "authorization" : null,
    paidAt: isPaid ? PAID : null,
    createdAt: CREATED,
    updatedAt: PAID,
    expiresAt: new Date("2026-01-02T12:00:00Z"),
    reference: "sample-1",
    metadata: {},
    customerEmail: null,
    successUrl: null,
    cancelUrl: null,
  };
}

const SAMPLE_TRANSACTION: HistoryRow = {
  id: TRANSACTION_ID,
  type: "PAYMENT_LINK",
  status: "CONFIRMED",
  amountUnits: AMOUNT_UNITS,
  ...{ network: "base-sepolia", counterparty: `0x${"11".repeat(20)}`, description: "Sample order" },
  txHash: TX_HASH,
  logIndex: 0,
  blockNumber: 1n,
  linkId: LINK_ID,
  paymentId: null,
  failureReason: null,
  detectedAt: PAID,
  confirmedAt: PAID,
  settledBy: "authorization",
  candidates: null,
  operationId: null,
  operationNote: null,
  reference: "sample-1",
};
