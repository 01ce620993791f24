/** The receipt of one payment of a link: who paid whom how much for what, and where the chain holds it. */
import { formatUnits } from "./money.ts";
import { type Hex, NETWORKS, type NetworkId } from "./networks.ts";
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

/** "12.50": as many places as the amount needs, two at least. */
export function plainAmount(units: bigint): string {
  return formatUnits(units).replace(/0{1,4}$/, "");
}

/** The lines of the mailed receipt, in English. */
export function linesOfReceipt(
  receipt: Receipt,
  documentNumber: string | undefined,
): [name: string, value: string][] {
  const { chainId, displayName } = NETWORKS[receipt.network];
  const lines: [string, string | null | false | undefined][] = [
    ["Receipt number", documentNumber],
    ["Paid to", receipt.merchantName],
    ["For", receipt.description],
    ["Reference", receipt.reference],
    ["Amount paid", `${plainAmount(receipt.amountUnits)} USDC`],
    ["Refunded", receipt.refundedUnits > 0n && `${plainAmount(receipt.refundedUnits)} USDC`],
    ["Paid on", `${receipt.paidAt.toISOString().slice(0, 19).replace("T", " ")} UTC`],
    ["Network", `${displayName} (chain ${chainId})`],
    ["From address", receipt.payer],
    ["To address", receipt.recipient],
    ["Transaction", receipt.txHash],
    ["Block", receipt.blockNumber.toString()],
    ["Payment link", receipt.linkId],
    ["Transaction ID", receipt.transactionId],
  ];
  return lines.filter((line): line is [string, string] => typeof line[1] === "string" && line[1] !== "");
}
