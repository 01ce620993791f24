/** A history row as users see it, and the filter that selects rows. Pure: shared by the list, the exports and the events. */

import { formatUnits } from "./money.ts";
import type { NetworkId } from "./networks.ts";
import type { TransactionStatus, TransactionType } from "./payment.ts";
import type { SettledBy } from "./settled-by.ts";
import { unreachable } from "./unreachable.ts";

/** Absent or empty means everything; amount bounds are inclusive, `from` inclusive and `before` exclusive. */
export type TransactionFilter = {
  types: readonly TransactionType[];
  statuses: readonly TransactionStatus[];
  networks: readonly NetworkId[];
  currencies: readonly "USDC"[];
  from?: Date | undefined;
  before?: Date | undefined;
  /** Substring of the description or the reference, or prefix of a transaction hash. */
  search?: string | undefined;
  minUnits?: bigint | undefined;
  maxUnits?: bigint | undefined;
};

export const NO_FILTER: TransactionFilter = { types: [], statuses: [], networks: [], currencies: [] };

export const TITLE_DESCRIPTION_MAX = 60;

/** The columns of a history row that are shown. */
export type HistoryRow = {
  id: string;
  type: TransactionType;
  status: TransactionStatus;
  amountUnits: bigint;
  network: NetworkId;
  counterparty: string;
  description: string;
  txHash: string | null;
  logIndex: number | null;
  blockNumber: bigint | null;
  linkId: string | null;
  paymentId: string | null;
  failureReason: string | null;
  detectedAt: Date;
  confirmedAt: Date | null;
  settledBy: SettledBy | null;
  /** Ids of the links that fit, when no evidence decided between them. */
  candidates: string[] | null;
  /** Our send or refund that made it. */
  operationId: string | null;
  /** Of a refund: its reason. */
  operationNote: string | null;
  /** The link's reference: the merchant's own order number. */
  reference: string | null;
};

/** The wire form of a transaction. */
export function presentTransaction(row: HistoryRow) {
  return {
    id: row.id,
    type: row.type,
    amount: formatUnits(row.amountUnits),
    currency: "USDC",
    network: row.network,
    status: row.status,
    title: titleOf(row),
    description: row.description,
    clientWalletAddress: row.counterparty,
    transactionHash: row.txHash,
    blockNumber: row.blockNumber === null ? null : Number(row.blockNumber),
    confirmedAt: row.confirmedAt?.toISOString() ?? null,
    detectedAt: row.detectedAt.toISOString(),
    settledBy: row.settledBy,
    candidates: row.candidates ?? [],
    metadata: {
      txHash: row.txHash,
      logIndex: row.logIndex,
      linkId: row.linkId,
      paymentId: row.paymentId,
      ...operationMetadata(row),
      ...(row.reference === null ? {} : { reference: row.reference }),
      ...(row.failureReason === null ? {} : { failureReason: row.failureReason }),
    },
  };
}

/** Whether a transaction of this type is money into its owner's wallet or out of it. */
export function directionOf(type: TransactionType): "in" | "out" {
  switch (type) {
    case "RECEIVE":
    case "PAYMENT_LINK":
      return "in";
    case "SEND":
      return "out";
    default:
      return unreachable(type);
  }
}

/** Whether amounts with this status are money that has moved: only those belong in a sum. */
export function isMoneyMoved(status: TransactionStatus): boolean {
  switch (status) {
    case "CONFIRMED":
      return true;
    case "PENDING":
    case "DETECTED":
    case "FAILED":
    case "ORPHANED":
      return false;
    default:
      return unreachable(status);
  }
}

function operationMetadata({ operationId, operationNote }: HistoryRow) {
  if (operationId === null) return {};
  if (!isRefund(operationId)) return { kind: "SEND", sendId: operationId };
  return { kind: "REFUND", refundId: operationId, reason: operationNote };
}

function isRefund(operationId: string | null): boolean {
  return operationId?.startsWith("rfd_") ?? false;
}

/** A short human-readable title. */
export function titleOf(
  row: Pick<HistoryRow, "type" | "counterparty" | "description"> & { operationId?: string | null },
): string {
  const { type } = row;
  switch (type) {
    case "RECEIVE":
      return `Received from ${shortAddress(row.counterparty)}`;
    case "SEND":
      if (isRefund(row.operationId ?? null))
        return `Refund for ${shorten(row.description, TITLE_DESCRIPTION_MAX)}`;
      return `Sent to ${shortAddress(row.counterparty)}`;
    case "PAYMENT_LINK":
      return row.description === ""
        ? `Payment from ${shortAddress(row.counterparty)}`
        : `Payment for ${shorten(row.description, TITLE_DESCRIPTION_MAX)}`;
    default:
      return unreachable(type);
  }
}

/** "0x12ab…89cd" */
export function shortAddress(address: string): string {
  return address.length > 12 ? `${address.slice(0, 6)}…${address.slice(-4)}` : address;
}

/** At most `max` grapheme clusters; never cuts one in half. */
export function shorten(text: string, max: number): string {
  if (text.length <= max) return text;
  const characters = Array.from(new Intl.Segmenter().segment(text), (part) => part.segment);
  return characters.length <= max
    ? text
    : `${characters
        .slice(0, max - 1)
        .join("")
        .trimEnd()}…`;
}
