/** What must hold of links, operations and sums, given what the service shows and what the chain's receipts say. Pure: each returns the violations. */
import { formatUnits, parseUnits, parseUnitsFromNumber } from "../../core/domain/money.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { ChainTransfer } from "../support/invariants.ts";
import type { Link, Operation } from "./stage.ts";

export type ShownLink = { status: string; exception: string; refundedAmount?: number | null };
export type ShownOperation = { status: string; reason?: string | null };
export type SummaryRow = { type: string; status: string; amount: string; count: number };

/** A link's transfers on the chain: of its payers' authorizations, of their own transfers, and of its refunds. */
export type LinkMoney = {
  authorized: readonly ChainTransfer[];
  sent: readonly ChainTransfer[];
  refundedUnits: bigint;
};

export function readLinkMoney(
  link: Link,
  transfers: readonly ChainTransfer[],
  refunds: readonly Pick<Operation, "to">[],
): LinkMoney {
  const { wallet, authorizers, senders } = link;
  const cameFrom = (payers: readonly Hex[]) =>
    transfers.filter(({ from, to }) => to === wallet && payers.some((payer) => payer === from));
  const given = transfers.filter(
    ({ from, to }) => from === wallet && refunds.some((refund) => refund.to === to),
  );
  return { authorized: cameFrom(authorizers), sent: cameFrom(senders), refundedUnits: sumOf(given) };
}

/** Transfers that pay the link: of exactly its amount or its unique amount. */
export function payingTransfers(link: Link, { authorized, sent }: LinkMoney): ChainTransfer[] {
  return [...authorized, ...sent].filter(
    ({ amountUnits }) => amountUnits === link.amountUnits || amountUnits === link.payAmountUnits,
  );
}

/** A link is PAID exactly if a transfer pays it; no second payer is charged; what it shows as refunded left the wallet, and came before. */
export function judgeLink(link: Link, shown: ShownLink, money: LinkMoney): string[] {
  const { authorized, sent, refundedUnits } = money;
  const all = [...authorized, ...sent];
  const isPaid = shown.status === "PAID";
  const what = `link ${link.id} on ${link.network}, paid by ${link.way}, is ${shown.status} ${shown.exception} with ${authorized.length} executed authorizations and ${sent.length} transfers`;
  const broken: string[] = [];
  if (isPaid !== payingTransfers(link, money).length > 0) broken.push("the chain says otherwise");
  const mayBeCancelled = link.way === "authorization and cancellation" && shown.status === "CANCELLED";
  if (!isPaid && shown.status !== "ACTIVE" && !mayBeCancelled) broken.push("nothing holds it any more");
  if (authorized.length > 1) broken.push("it was charged twice");
  if (link.isToldPaid && !isPaid) broken.push("its payer was answered that it is paid");
  if (all.length > 1 && link.way !== "authorization and transfer")
    broken.push("more transfers than it had independent payers");
  if (refundedUnits > sumOf(all)) broken.push(`${refundedUnits} were refunded of ${sumOf(all)}`);
  if (parseUnitsFromNumber(shown.refundedAmount ?? 0) !== refundedUnits)
    broken.push(`it shows ${shown.refundedAmount} as refunded instead of ${formatUnits(refundedUnits)}`);
  return broken.map((fault) => `${what}: ${fault}`);
}

/** A CONFIRMED operation moved its amount exactly once, any other one nothing; one that was accepted has ended. */
export function judgeOperation(
  operation: Omit<Operation, "merchant">,
  wallet: string,
  shown: ShownOperation,
  transfers: readonly ChainTransfer[],
): string[] {
  const { id, kind, network, to, units, isConfirmed } = operation;
  const moved = transfers.filter((transfer) => transfer.from === wallet && transfer.to === to);
  const amounts = moved.map(({ amountUnits }) => amountUnits);
  const expected = shown.status === "CONFIRMED" ? [units] : [];
  const what = `${kind} ${id} on ${network} of ${units} is ${shown.status} ${shown.reason ?? ""}`.trim();
  const broken: string[] = [];
  if (amounts.join() !== expected.join()) broken.push(`it moved ${amounts.join(" and ") || "nothing"}`);
  if (isConfirmed && !["CONFIRMED", "FAILED"].includes(shown.status)) broken.push("it has not ended");
  return broken.map((fault) => `${what}: ${fault}`);
}

type Sum = { units: bigint; count: number };

/** The sums and counts of a merchant's history, both networks together, are those of the wallet's transfers. */
export function judgeSummary(
  userId: string,
  wallet: string,
  rows: readonly SummaryRow[],
  transfers: readonly ChainTransfer[],
): string[] {
  const broken: string[] = [];
  const shown = { came: { units: 0n, count: 0 }, left: { units: 0n, count: 0 } };
  for (const { type, status, amount, count } of rows) {
    if (status === "FAILED" || status === "ORPHANED") continue;
    if (status !== "CONFIRMED") broken.push(`summary of ${userId}: ${count} of ${type} are still ${status}`);
    const side = type === "SEND" ? shown.left : shown.came;
    side.units += parseUnits(amount) ?? 0n;
    side.count += count;
  }
  const came = transfers.filter(({ to }) => to === wallet);
  const left = transfers.filter(({ from }) => from === wallet);
  const compare = (side: string, sum: Sum, real: readonly ChainTransfer[]) => {
    if (sum.units !== sumOf(real) || sum.count !== real.length)
      broken.push(
        `summary of ${userId}: ${sum.count} ${side} of ${sum.units}, the chain has ${real.length} of ${sumOf(real)}`,
      );
  };
  compare("received", shown.came, came);
  compare("sent", shown.left, left);
  return broken;
}

export function sumOf(transfers: readonly ChainTransfer[]): bigint {
  return transfers.reduce((sum, { amountUnits }) => sum + amountUnits, 0n);
}
