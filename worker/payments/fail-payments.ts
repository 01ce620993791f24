/**
 * Marks queued payments that can't be settled as FAILED with a reason, and releases their links. After how many attempts:
 * retry-or-fail-payments.ts.
 */
import { lockLinks } from "../../db/links/lock-links.ts";
import { failPayments, lockPayments } from "../../db/payments/payments.ts";
import type { LeasedPayment } from "../../db/payments/queue.ts";
import { notify } from "../../db/postgres/notifications.ts";
import type { PaymentNetwork } from "./payment-network.ts";

/**
 * `message`: shown to the payer in addition to the reason, when a limit refused the payment. `isOutcomeUnknown`: no node confirmed that its
 * authorization is unused.
 */
export type Failure = {
  payment: LeasedPayment;
  reason: string;
  message?: string | undefined;
  isOutcomeUnknown?: boolean | undefined;
};

/** Payments that another worker has signed concurrently, or that have failed and were accepted again, are unchanged. */
export async function failQueuedPayments(
  { deps, chain, metrics }: PaymentNetwork,
  failures: readonly Failure[],
): Promise<void> {
  if (failures.length === 0) return;
  const failed = await deps.sql.begin(async (tx) => {
    await lockPayments(
      tx,
      failures.map(({ payment }) => payment.id),
    );
    await lockLinks(
      tx,
      failures.flatMap(({ payment }) => payment.linkId ?? []),
    );
    const ended = await failPayments(
      tx,
      failures.map(({ payment: { id, updatedAtMicros }, ...failure }) => ({
        id,
        updatedAtMicros,
        ...failure,
      })),
    );
    await notify(
      tx,
      ended.flatMap(({ id, linkId }) => (linkId === null ? [id] : [id, linkId])),
    );
    return new Set(ended.map(({ id }) => id));
  });
  for (const { payment, reason } of failures) {
    if (!failed.has(payment.id)) continue;
    metrics.refusals.inc({ network: chain.network.id, reason });
    deps.log.info({ paymentId: payment.id, reason, requestId: payment.requestId }, "payment failed");
  }
}
