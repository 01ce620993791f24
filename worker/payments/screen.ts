/**
 * Payments that are refused before the chain is asked; nothing of them has been sent. What the token itself refuses, a blocklisted payer
 * among it: core/chain/revert-reasons.ts.
 */
import type { LeasedPayment } from "../../db/payments/queue.ts";
import type { Failure } from "./fail-payments.ts";

/** A transaction signed now is mined this much later at the earliest. */
const LAST_MOMENT_S = 2n;
/** Transactions of a payer in a day that may pass simulation and then revert. */
const PAYER_REVERTS_MAX = 3;

/** `headTimeS` is the newest block's time. */
export function screenPayments(
  payments: readonly LeasedPayment[],
  headTimeS: bigint,
): { sound: LeasedPayment[]; failures: Failure[] } {
  const failures: Failure[] = [];
  const sound = payments.filter((payment) => {
    const reason = reasonAgainst(payment, headTimeS);
    if (reason) failures.push({ payment, reason });
    return reason === undefined;
  });
  return { sound, failures };
}

function reasonAgainst(payment: LeasedPayment, headTimeS: bigint): string | undefined {
  // relaying it now would take the payer's money for a link that is paid
  if (payment.isLinkPaid) return "LINK_ALREADY_PAID";
  if (payment.validBefore <= headTimeS + LAST_MOMENT_S) return "EXPIRED_TRANSFER";
  if (payment.payerReverts >= PAYER_REVERTS_MAX) return "PAYMENT_NOT_ALLOWED";
  return undefined;
}
