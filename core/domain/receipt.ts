/**
 * The receipt of one payment of a link: who paid whom how much for what, and in which transaction. It exists once the link is PAID and its
 * transfer CONFIRMED (`findReceipt` of db/links/receipts.ts).
 */
import type { Hex, NetworkId } from "./networks.ts";
import type { SettledBy } from "./settled-by.ts";

/** Mails that the payments of one merchant may cause in 24 hours: paying oneself is cheap, and the text is the merchant's. */
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
  /** What has gone back of it. */
  refundedUnits: bigint;
  txHash: Hex;
  logIndex: number;
  blockNumber: bigint;
  paidAt: Date;
  settledBy: SettledBy | null;
};
