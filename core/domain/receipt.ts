/**
 * The receipt of one payment of a link: who paid whom how much for what, and in which transaction. It exists once the link is PAID and its
 * transfer CONFIRMED (`findReceipt` of db/links/receipts.ts).
 */
import type { Hex, NetworkId } from "./networks.ts";
import type { SettledBy } from "./settled-by.ts";

/** Maximum receipt e-mails per merchant and 24 hours: paying oneself is cheap, and the merchant controls the text. */
export const RECEIPT_MAILS_PER_DAY = 1_000;

export type Receipt = {
  linkId: string;
  paymentId: string | null;
  transactionId: string | null;
  network: NetworkId;
  merchantName: string;
  description: string;
  reference: string | null;
  metadata: Record<string, string>;
  customerEmail: string | null;
  payer: Hex;
  recipient: Hex;
  amountUnits: bigint;
  /** The amount refunded. */
  refundedUnits: bigint;
  txHash: Hex;
  logIndex: number;
  blockNumber: bigint;
  paidAt: Date;
  settledBy: SettledBy | null;
};
